"""What a decision is made with, and the effects that depend on nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fallback_plugin.fallback.chain import Chain, not_allowed
from fallback_plugin.fallback.choosing import Need, misfit
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.effects import (
    Abort,
    CloseModel,
    Effect,
    StartTimer,
    StopTimer,
    TimerName,
    Toast,
)
from fallback_plugin.fallback.policy import Verdict, decide
from fallback_plugin.fallback.reset_time import capped
from fallback_plugin.fallback.session import Attempt, Session, Turn
from fallback_plugin.fallback.shared_health import SessionHealth
from fallback_plugin.fallback.state import Unfit
from fallback_plugin.health.closure import MAX_WAIT_S
from fallback_plugin.health.scope import closing_key, keys_of
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S
from fallback_plugin.host_client import ENDS_AT_IDLE, HostKind
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind, ModelSettings, Settings
from fallback_plugin.wire.model_catalog import EVERYTHING, ModelCatalog
from fallback_plugin.wire.toast import Toast as ToastBody

SETTLE_S: Final = 1.0
"""How long a finished turn is given to publish its user message once more; OpenCode does so within 0.1 s."""

NEWS_S: Final = 1.0
"""How long an event that is known to be on its way is waited for."""

SHORTEST_WAIT_S: Final = 1.0
"""A provider that asks for less is left alone for this long."""

LONGEST_UNASKED_S: Final = 180.0
"""How long a host may take in all before it asks a model, until its silence is taken for the model's."""

SHARED_KINDS: Final = frozenset[FailureKind](
    {
        "rate_limit",
        "quota",
        "billing",
        "concurrency",
        "overload",
        "server",
        "transport",
        "timeout",
        "auth",
        "model_not_found",
    }
)
"""Kinds that say something about the model, not about the one turn that met them."""

HEALED_BY_TIME: Final = SHARED_KINDS - frozenset[FailureKind]({"auth", "billing", "model_not_found"})
"""Kinds after which a model is worth another request once its closure is over."""


def plain_advice() -> str:
    """Say how to set a chain where nothing is known of the settings' files."""
    return "Set fallback_models in fallback.toml."


@dataclass(frozen=True, slots=True)
class Context:
    """The settings, the session's chain, the time, and how the host runs."""

    settings: Settings
    chain: Chain
    now: float
    host_kind: HostKind = "serve"
    agent: str | None = None
    catalog: ModelCatalog = EVERYTHING
    heard_since: float = 0.0
    tells_requests: bool = False
    chain_advice: Callable[[], str] = plain_advice

    def inline(self, session: Session) -> bool:
        """Tell whether a failed request of a session is to be answered by the next model by itself."""
        way = self.settings.fallback.switching
        return (
            way == "inline"
            or self.never_replays
            or (way == "auto" and (self.ends_at_idle or session.parent_id is not None))
        )

    @property
    def ends_at_idle(self) -> bool:
        """Whether a turn counts as over at its session's first idle, so that no replay may end its run."""
        return self.host_kind in ENDS_AT_IDLE

    @property
    def never_replays(self) -> bool:
        """Whether the host asks about every failed request and can hand its answer to any model.

        Our own does: what it reports as a failure, no model of the chain could take over.
        """
        return self.host_kind == "agent"

    def knows(self, session: Session) -> int | None:
        """Return the last event that a call is decided on; None if a stop would not matter to it."""
        return session.heard if self.settings.fallback.on_foreign_abort == "stop" else None

    def verdict(self, failure: Failure, model: ModelRef) -> Verdict:
        """Return what follows a failure of a model."""
        return decide(failure, self.settings, agent=self.agent, provider=model.provider)

    def unfit(self, session: Session, turn: Turn | None = None, failure: Failure | None = None) -> Unfit:
        """Return the test that tells why a candidate cannot take a turn.

        What failed in the turn is not asked again in it, and neither is what its failures close, whatever
        health says. A context too long for one model may fit another with a larger window.
        """
        failures = dict(turn.reasons) if turn else {}
        if turn and failure:
            failures[turn.attempt.model] = failure
        shut = {closing_key(model, of.scope) for model, of in failures.items()}
        misfit = self.misfit(session, turn, failure)

        def reason(model: ModelRef) -> str | None:
            if model in failures:
                return "failed in this turn"
            closed = not shut.isdisjoint(keys_of(model))
            return misfit(model) or ("closed with the model that failed" if closed else None)

        return reason

    def misfit(self, session: Session, turn: Turn | None = None, failure: Failure | None = None) -> Unfit:
        """Return the test that tells why a model could never take a turn, whatever has failed."""
        unpaid = not_allowed(self.settings, self.agent)
        grown = turn is not None and failure is not None and failure.kind == "overflow"
        window = self.catalog.facts(turn.attempt.model).context_tokens if turn and grown else None
        need = Need(turn is not None and turn.images, session.tokens, (window or 0) if grown else None)
        return lambda model: misfit(model, need, self.catalog, unpaid)

    def unfit_now(self, session: Session, health: SessionHealth) -> Unfit:
        """Return the same test for a prompt that is on its way: a half-open model is taken at once."""
        unfit = self.unfit(session)
        return lambda model: unfit(model) or (None if health.may_ask(model) else "somebody else probes it")

    def toast(self, session: Session, toast: ToastBody, *, once: str | None = None) -> list[Effect]:
        """Return a toast, unless the person wants none; ``once`` names what all instances say but once."""
        if not self.settings.fallback.notify:
            return []
        return [Toast(session.id, toast, f"{session.id}/{once}" if once else None, self.knows(session))]

    def cooldown_s(self, model: ModelRef) -> float:
        """Return how long a model is left alone when its provider does not say."""
        own = self._own(model).cooldown
        return self.settings.fallback.cooldown if own is None else own

    def close(self, session: Session, model: ModelRef, failure: Failure) -> list[CloseModel]:
        """Return the closure that follows a failure; none if it says nothing of later requests.

        The provider's word goes before the cooldown. Each further failure in a row doubles the wait: without
        end where the provider is silent, up to the cooldown where it was its own word that did not hold.
        """
        cooldown_s, told_s = self.cooldown_s(model), failure.retry_after_s
        wait_s = cooldown_s if told_s is None else max(SHORTEST_WAIT_S, capped(told_s))
        if failure.local or failure.kind not in SHARED_KINDS or wait_s <= 0:
            return []
        grows_to_s = MAX_WAIT_S if told_s is None else max(wait_s, cooldown_s)
        until = self.now + wait_s
        return [CloseModel(session.id, model, failure.scope, until, failure.kind, wait_s, grows_to_s)]

    def first_token_timer(self, session: Session, attempt: Attempt) -> list[Effect]:
        """Return the timer that gives a model its time to begin; none if it is switched off."""
        return _timer(session, "first_token", attempt, self.first_token_timeout_s(attempt.model))

    def first_token_timeout_s(self, model: ModelRef) -> float:
        """Return how long a model may take to its first sign of life, 0 for ever."""
        own = self._own(model).first_token_timeout
        return self.settings.fallback.first_token_timeout if own is None else own

    def stall_timer(self, session: Session, attempt: Attempt, quiet_s: float = 0.0) -> list[Effect]:
        """Return the timer of an answer that has not grown for ``quiet_s``; none if it is switched off."""
        timeout_s = self.stall_timeout_s(attempt.model)
        return _timer(session, "stall", attempt, timeout_s - quiet_s) if timeout_s > 0 else []

    def stall_timeout_s(self, model: ModelRef) -> float:
        """Return how long no growth may be seen of a model's answer, 0 for ever.

        Growth is seen only every `ACTIVITY_EVERY_S`, so the answer may have grown that much later.
        """
        own = self._own(model).stall_timeout
        timeout_s = self.settings.fallback.stall_timeout if own is None else own
        return timeout_s + ACTIVITY_EVERY_S if timeout_s > 0 else 0.0

    def _own(self, model: ModelRef) -> ModelSettings:
        """Return what is set for a model with its variant, else without."""
        of = self.settings.models
        return of.get(model) or of.get(replace(model, variant=None)) or ModelSettings()


def _timer(session: Session, name: TimerName, attempt: Attempt, after_s: float) -> list[Effect]:
    return [StartTimer(session.id, name, attempt.number, after_s)] if after_s > 0 else []


def stop_run(session: Session, attempt: int, context: Context) -> Abort:
    """Return the abort of an attempt's run, written down as ours."""
    session.ledger.open(attempt, context.now)
    return Abort(session.id, attempt, context.knows(session))


def stop_timers(session: Session) -> list[Effect]:
    """Return the end of the timers that watch an answer."""
    return [StopTimer(session.id, "first_token"), StopTimer(session.id, "stall")]
