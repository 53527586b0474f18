"""A stage for the engine: speaks for the host, keeps the clock, collects the effects."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from fallback_plugin.events import Event
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import PROBED, Claim, Done, Effect, Failed, Outcome, TimerFired
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.session import Session
from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.scope import Key, Scope
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.host_client import Receipt
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

PRIMARY, A, B = ModelRef("fake", "primary"), ModelRef("spare", "a"), ModelRef("third", "b")

EffectT = TypeVar("EffectT", bound=Effect)


def settings(chain: tuple[Any, ...] = ("spare/a", "third/b"), **fallback: Any) -> Settings:
    """Return settings with a global chain; the timers are off unless asked for."""
    fallback = {"first_token_timeout": 0, "stall_timeout": 0, **fallback}
    return Settings.model_validate({"fallback": {"fallback_models": list(chain), **fallback}})


@dataclass
class Stage:
    """One engine and the host's side of it; sessions are named by ``session``."""

    engine: Engine = field(default_factory=lambda: Engine(settings()))
    session: str = "ses_1"
    now: float = 1_000_000.0
    effects: list[Effect] = field(default_factory=list)
    sequence: int = 0
    health: MemoryHealth = field(default_factory=MemoryHealth)
    grants_leases: bool = True
    deletes: bool = True

    def tell(self, event: Event | TimerFired) -> list[Effect]:
        self.look()
        return self.take(self.engine.handle(event, self.now))

    def take(self, new: list[Effect]) -> list[Effect]:
        """Keep effects; leases are granted, models closed and messages deleted at once."""
        taken = list(new)
        self.effects += new
        for effect in new:
            if isinstance(effect, effects.Claim):
                taken += self.finish(effect, self.claimed(effect))
            elif isinstance(effect, effects.DeleteMessage):
                taken += self.finish(effect, Done() if self.deletes else Failed("busy", 409))
            elif isinstance(effect, effects.CloseModel):
                growth = {"base_s": effect.base_s, "grows_to_s": effect.grows_to_s}
                self.close(effect.model, effect.until, scope=effect.scope, **growth)
            elif isinstance(effect, effects.Reopen):
                self.health.reopen(effect.model, asked_at=effect.asked_at)
                self.look()
            elif isinstance(effect, effects.EndProbe):
                self.health.end_probe(effect.model, effect.session_id)
                self.look()
        return taken

    def claimed(self, claim: Claim) -> Outcome:
        if not self.grants_leases:
            return Failed("another has it")
        probing = claim.probe is None or self.begin_probe(claim.probe, claim.session_id)
        return Done() if probing else Failed(PROBED)

    def close(self, model: ModelRef, until: float, *, scope: Scope = "model", **growth: float) -> None:
        """Close a model for all sessions."""
        self.health.close(model, scope, until, reason="rate_limit", now=self.now, **growth)
        self.look()

    def look(self) -> None:
        """Let the engine see what is closed now."""
        self.engine.health.view = self.health.view(self.now)
        self.engine.health.begin_probe = self.begin_probe

    def begin_probe(self, key: Key, session_id: str) -> bool:
        """Take a probe for a session, as the plugin does."""
        granted = self.health.begin_probe(key, session_id, self.now, ttl_s=120)
        self.look()
        return granted

    def host(self, kind: str, **properties: Any) -> list[Effect]:
        self.sequence += 1
        raw = {"type": kind, "properties": {"sessionID": self.session, **properties}}
        return self.tell(read_event(raw, sequence=self.sequence))

    def user(self, message: str = "msg_1", model: ModelRef = PRIMARY, **info: Any) -> list[Effect]:
        self.now += 0.001
        return self.host(
            "message.updated",
            info={
                "id": message,
                "sessionID": self.session,
                "role": "user",
                "agent": "build",
                "time": {"created": self.now * 1000},
                "model": {"providerID": model.provider, "modelID": model.model},
                **info,
            },
        )

    def answer(
        self, message: str, model: ModelRef = PRIMARY, parent: str = "msg_1", **info: Any
    ) -> list[Effect]:
        self.now += 0.001
        return self.host(
            "message.updated",
            info={
                "id": message,
                "sessionID": self.session,
                "role": "assistant",
                "parentID": parent,
                "agent": "build",
                "providerID": model.provider,
                "modelID": model.model,
                "time": {"created": self.now * 1000},
                **info,
            },
        )

    def content(self, message: str, kind: str = "text") -> list[Effect]:
        part = {"id": "prt_1", "sessionID": self.session, "messageID": message, "type": kind, "text": "Hi"}
        return self.host("message.part.updated", part=part)

    def retry(
        self, message: str = "Rate limit reached", attempt: int = 1, next_in: float = 2
    ) -> list[Effect]:
        status = {
            "type": "retry",
            "attempt": attempt,
            "message": message,
            "next": (self.now + next_in) * 1000,
        }
        return self.host("session.status", status=status)

    def busy(self) -> list[Effect]:
        return self.host("session.status", status={"type": "busy"})

    def error(self, error: dict[str, Any] | str) -> list[Effect]:
        return self.host("session.error", error=error)

    def idle(self) -> list[Effect]:
        return [*self.host("session.status", status={"type": "idle"}), *self.host("session.idle")]

    def requested(self, message_id: str = "msg_1") -> list[Effect]:
        return self.host("model.requested", messageID=message_id)

    def abort_requested(self) -> list[Effect]:
        return self.host("session.abort.requested")

    def finish(self, effect: Effect, outcome: Outcome | None = None) -> list[Effect]:
        return self.take(self.engine.finished(effect, outcome or Done(Receipt()), self.now))

    def aborted(self) -> list[Effect]:
        """Answer the last abort the way the host does in a retry wait: one idle, then the answer."""
        sent_after = self.sequence
        self.idle()
        return self.finish(self.last(effects.Abort), Done(Receipt(sent_after, self.sequence)))

    def accepted(self) -> list[Effect]:
        return self.finish(self.last(effects.Prompt))

    def refused(self, status: int = 400) -> list[Effect]:
        return self.finish(self.last(effects.Prompt), Failed("refused", status))

    def began(self, message: str, model: ModelRef) -> None:
        """Show that the host runs the turn on a model: the user message, the stub, the first content."""
        self.user("msg_1", model)
        self.answer(message, model)
        self.content(message)

    def fail_over(self, message: str, model: ModelRef) -> None:
        """Carry a switch that has just begun to its good end."""
        self.aborted()
        self.accepted()
        self.began(message, model)

    def fail_over_silently(self, message: str, model: ModelRef) -> None:
        """Carry a switch that has just begun to the model's first step, which holds nothing yet."""
        self.aborted()
        self.accepted()
        self.user("msg_1", model)
        self.answer(message, model)

    def choose(
        self,
        model: ModelRef | None = PRIMARY,
        message: str | None = None,
        agent: str = "build",
        *,
        resolved: ModelRef | None = None,
    ) -> ModelRef | None:
        request = PromptRequest(
            session_id=self.session, message_id=message, agent=agent, model=model, resolved=resolved
        )
        self.look()
        chosen, new = self.engine.choose_model(request, self.now)
        self.effects += new
        return chosen

    def all(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def last(self, kind: type[EffectT]) -> EffectT:
        return self.all(kind)[-1]

    @property
    def prompts(self) -> list[Prompt]:
        return [effect.body for effect in self.all(effects.Prompt)]

    @property
    def asked(self) -> list[ModelRef]:
        """The models that prompts were sent to."""
        return [prompt.model for prompt in self.prompts]

    @property
    def toasts(self) -> list[Toast]:
        return [effect.body for effect in self.all(effects.Toast)]

    @property
    def state(self) -> Session:
        session = self.engine.session(self.session)
        assert session is not None
        return session

    @property
    def in_flight(self) -> bool:
        return self.session in self.engine.switching.in_flight


def api_error(status: int, message: str = "refused", **data: Any) -> dict[str, Any]:
    """Return the host's error object for an HTTP status."""
    return {
        "name": "APIError",
        "data": {"message": message, "statusCode": status, "isRetryable": False, **data},
    }


ABORTED = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
