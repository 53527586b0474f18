"""What the engine knows of one session: its turn, the attempts at it, and a switch under way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from fallback_plugin.events import AssistantMessage, Ending, SessionEvent, UserMessage
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.guards import AbortLedger
from fallback_plugin.fallback.replay import Replay
from fallback_plugin.fallback.state import FallbackState, Plan, Snapshot
from fallback_plugin.fallback.toasts import unsent
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.host_client import Receipt
from fallback_plugin.model_ref import ModelRef


def same_model(one: ModelRef, other: ModelRef) -> bool:
    """Compare without the variant, which a host does not name on an answer."""
    return (one.provider, one.model) == (other.provider, other.model)


MESSAGES_REMEMBERED: Final = 16

STOPPED_BY_USER: Final = "the user stopped the turn"
WENT_ON: Final = "the session went on to another turn"

RunState: TypeAlias = Literal["waiting", "running", "over", "finished"]
"""How a failed run stands: waiting to retry, running, ended by its failure, or ended as if all were well."""

IDLES: Final[Mapping[RunState, int]] = {"waiting": 1, "running": 1, "over": 3, "finished": 1}
"""Idles a failed run and our abort of it make together (OpenCode 1.18.33, 174 runs): an abort makes one, and
one more where it was reported as an error; a run that failed for good makes two before the abort's own. One
that finished is not aborted."""

SIGNS: Final[Mapping[RunState | Ending, str]] = {
    "waiting": "the host waited to ask the model again",
    "running": "the answer broke off, fell silent or held an error",
    "over": "the host reported an error",
    "finished": "the answer ended with nothing in it",
    "refused": "its request was refused",
    "empty": "its request was answered with nothing",
    "cut": "the answer to its request broke off before it began",
    "silent": "its request was not answered in time",
    "broken": "its answer broke off",
}
"""What was seen of a failure, by how the run stood then, or by how the one request ended."""


def sign_of(stood: RunState | Ending, failure: Failure) -> str:
    """Say what was seen of a failure; of one that was local, why no request was sent."""
    return unsent(failure) if failure.local else SIGNS[stood]


Phase: TypeAlias = Literal[
    "claiming", "aborting", "settling", "reading", "reverting", "deleting", "dispatching"
]


@dataclass(slots=True)
class Attempt:
    """One model's try at a turn; it may take several steps, each an assistant message of its own.

    (session, turn, ``number``, ``model``) is the identity of its failure: the first signal sets ``failed``,
    all later ones are the same failure. Numbers rise through the whole session.

    Attributes:
        dispatched: we sent the prompt for it.
        sent_anew: that prompt became a message of its own; else it ran the user's message again.
        begun: the host has shown that it works on this attempt.
        step: the assistant message of the present step.
        silent: the present step has produced nothing yet.
        spoken: the present step holds text or a tool call.
        finished: the present step has come to its end.
        grew_at: when the present step last grew.
        tools_running: parts of the tools that run now.
        retrying: the host waits to ask the model again.
        answered: some step has produced content.
        asked_at: when the model was asked for the present step.
        named: the model that the host takes for the author; another than ``model`` after an inline switch.
        unasked_s: how long the host has been waited for, which has yet to ask the model.
        judged: what its last failed request failed of, in a host that asks about each one.
        told: it was said that a fallback is in use.
        awaited: a call waits for the end of the turn, and what is said of its answer waits for that.
    """

    number: int
    model: ModelRef
    dispatched: bool = False
    sent_anew: bool = False
    begun: bool = True
    step: str | None = None
    silent: bool = True
    spoken: bool = False
    finished: bool = False
    grew_at: float = 0.0
    tools_running: frozenset[str] = frozenset()
    retrying: bool = False
    answered: bool = False
    failed: bool = False
    asked_at: float = 0.0
    named: ModelRef | None = None
    unasked_s: float = 0.0
    judged: Failure | None = None
    told: bool = False
    awaited: bool = False

    @property
    def shown(self) -> ModelRef:
        """The model that the host names on the attempt's messages."""
        return self.named or self.model

    def begin_step(self, message_id: str) -> None:
        """Take in that the model was asked for a new step."""
        self.step = message_id
        self.silent = True
        self.spoken = False
        self.finished = False
        self.tools_running = frozenset()


@dataclass(slots=True)
class Turn:
    """One message of the user's and all attempts to answer it.

    ``user`` is None until the message is read. ``half_answers`` are the steps with text and no tool call, in
    order: left in place when their attempt fails, the next model would get them as its own words. A
    compaction is a turn as well: the host's own, on a message that only asks for it, with ``compacting`` set.
    ``images`` says that the person's message holds one. ``came_back`` are the models that were asked once
    more because they had opened while the host waited. ``removed`` says that its message left the history.
    """

    message_id: str
    created_at: float
    agent: str | None
    user: UserMessage | None
    attempts: list[Attempt]
    steps: dict[str, Attempt] = field(default_factory=dict)
    half_answers: dict[str, Attempt] = field(default_factory=dict)
    reasons: dict[ModelRef, Failure] = field(default_factory=dict)
    running: bool = True
    tools_done: bool = False
    compacting: bool = False
    cancelled: bool = False
    removed: bool = False
    exhaustion_said: bool = False
    came_back: frozenset[ModelRef] = frozenset()
    images: bool = False

    @property
    def attempt(self) -> Attempt:
        """The attempt under way, or the last one."""
        return self.attempts[-1]

    @property
    def asked_again(self) -> int:
        """How often the present model was asked once more because it had failed."""
        times = 0
        for attempt in reversed(self.attempts[:-1]):
            if attempt.model != self.attempt.model:
                break
            times += 1
        return times

    @property
    def awaiting_result(self) -> bool:
        """Whether a fallback was dispatched and has produced nothing yet."""
        return len(self.attempts) > 1 and not self.attempt.answered and not self.attempt.failed

    def take_half_answers(self) -> list[str]:
        """Return the half answers of attempts that failed, the last one first, and forget all."""
        failed = {id(each) for each in self.attempts if each.failed}
        taken = [step for step, of in reversed(self.half_answers.items()) if id(of) in failed]
        self.half_answers.clear()
        return taken

    def awaits(self, model: ModelRef) -> bool:
        """Tell whether a prompt of ours to a model, a message of its own, was handed in and has not begun."""
        waiting = self.awaiting_result and self.attempt.sent_anew and not self.attempt.begun
        return waiting and model == self.attempt.model

    def is_replayed_by(self, request: PromptRequest) -> bool:
        """Tell whether a prompt is ours: this turn again, in place or under a new id."""
        in_place = request.message_id is not None and request.message_id == self.message_id
        return in_place or (request.model is not None and self.awaits(request.model))

    def attempt_of(self, message: AssistantMessage) -> Attempt | None:
        """Return the attempt an assistant message belongs to, None if no attempt uses its model.

        A message not seen before belongs to the newest attempt of its model.
        """
        if attempt := self.steps.get(message.id):
            return attempt
        return next((a for a in reversed(self.attempts) if same_model(a.shown, message.model)), None)


@dataclass(slots=True)
class Switch:
    """A failure being answered: leave an attempt's model for the plan's.

    Attributes:
        attempt: the one dispatched, None until then.
        idles: the sequences of the idles since the failure was seen.
        back: the plan goes back to a model that has opened.
        ends_by_itself: the failed run was not aborted, since it was ending without that.
        abort_reported: the host has sent an abort's error for the failed run.
        for_queued: what is sent is a message that waited behind the failed turn.
        reverted: the turn's message was taken back, and nothing has been sent in its place.
        doomed: messages to delete before the turn runs again, the next one last.
        gave_way: it has waited once for a message of the user's.
    """

    turn: Turn
    plan: Plan
    failure: Failure
    failed_attempt: Attempt
    run: RunState
    phase: Phase = "claiming"
    idles: list[int | None] = field(default_factory=list)
    ends_by_itself: bool = False
    abort_reported: bool = False
    back: bool = False
    for_queued: bool = False
    reverted: bool = False
    doomed: list[str] = field(default_factory=list)
    gave_way: bool = False
    attempt: Attempt | None = None
    replay: Replay | None = None

    def hits(self, turn: Turn) -> bool:
        """Tell whether our abort hits the turn of a message that waited: the failed run has gone on with it.

        OpenCode goes on so after a cut stream.
        """
        return self.phase == "aborting" and self.run == "running" and turn is not self.turn

    def go_on_with(self, turn: Turn) -> None:
        """Send a message that waited behind the failed turn, which stays without an answer."""
        self.doomed = [*self.turn.take_half_answers(), *self.doomed]
        self.turn, self.for_queued = turn, True

    @property
    def ended_empty(self) -> bool:
        """Whether the turn to send again ended as if all were well: its host would not run it again."""
        return self.run == "finished" and not self.for_queued

    def stopped_by_user(self, receipt: Receipt | None = None) -> bool:
        """Tell whether somebody else aborted the session while we did.

        Every abort makes idles of its own (`IDLES`), all of them before its answer. One that came before our
        call was sent, to a run that was not over by itself, is another's; and so is one more than expected.
        """
        sent_after = receipt.sent_after if receipt else None
        early = sent_after is not None and any(idle is not None and idle <= sent_after for idle in self.idles)
        expected = IDLES[self.run] + (self.run == "running" and self.abort_reported) - self.ends_by_itself
        return (early and self.run in {"waiting", "running"}) or len(self.idles) > expected

    def over(self, turn: Turn | None) -> str | None:
        """Return why nothing may be sent any more, given the session's turn; None if all is well."""
        if self.turn.removed:
            return "its message was removed"
        if self.turn.cancelled:
            return STOPPED_BY_USER
        return None if turn is self.turn else WENT_ON


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A failure of a turn's attempt; ``tries`` is how often the host has asked the model again already."""

    turn: Turn
    attempt: Attempt
    failure: Failure
    run: RunState
    tries: float


@dataclass(frozen=True, slots=True)
class Owed:
    """A failed turn that can only be sent again when its run has ended."""

    turn: Turn
    attempt: Attempt
    failure: Failure
    sign: RunState | Ending


@dataclass(frozen=True, slots=True)
class Redirect:
    """A prompt that was sent to another model before it began, and how to undo that."""

    model: ModelRef
    before: Snapshot


@dataclass(frozen=True, slots=True)
class SetAside:
    """Where a session stood before a prompt named a model that its host does not list; None: nowhere yet."""

    state: FallbackState | None


@dataclass(slots=True)
class Session:
    """Everything about one session; sessions share nothing.

    ``introduced`` says that its parent is known, or asked for. ``tokens`` is what its context held last.
    ``known`` are the user's messages seen lately, each with whether its turn has begun.
    ``queued`` is a message that arrived while a turn was running; ``unseen`` a sign of failure of a turn that
    began before we looked. ``looking`` says that the history is being read for the answer of a silent turn.
    ``handed_in`` is a switch whose prompt was accepted and has not begun; ``unwanted`` are accepted prompts,
    by message, that are to be stopped as soon as they begin. ``owed`` is a failed turn that waits for the end
    of its run. ``set_aside`` is the state to go on with after prompts for a model that the host does not
    list. ``asked_for`` is the message on which a model was asked that has said nothing yet. ``hides`` says
    that a message was taken back for nothing and has yet to be shown again. ``outdated`` is a switch that
    gave way to a message of the user's which has yet to be seen. ``unjudged`` is a failure that waits for an
    earlier turn's switch to give way. ``stopped`` are messages whose turn was stopped. ``heard`` is the
    sequence of the last event.
    """

    id: str
    parent_id: str | None = None
    introduced: bool = False
    state: FallbackState | None = None
    turn: Turn | None = None
    queued: UserMessage | None = None
    unseen: SessionEvent | None = None
    looking: bool = False
    switch: Switch | None = None
    outdated: Switch | None = None
    unjudged: Unjudged | None = None
    handed_in: Switch | None = None
    unwanted: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, None] = field(default_factory=dict)
    redirect: Redirect | None = None
    set_aside: SetAside | None = None
    owed: Owed | None = None
    asked_for: str | None = None
    hides: bool = False
    heard: int | None = None
    ledger: AbortLedger = field(default_factory=AbortLedger)
    known: dict[str, bool] = field(default_factory=dict)
    attempts: int = 0
    last_seen: float = 0.0
    tokens: int = 0
    no_chain_said: bool = False

    def new_attempt(self, model: ModelRef, *, dispatched: bool = False) -> Attempt:
        """Return an attempt with the next number; one we dispatch has yet to begin."""
        self.attempts += 1
        return Attempt(self.attempts, model, dispatched=dispatched, begun=not dispatched)

    def has_seen(self, message_id: str) -> bool:
        """Tell whether a message of the user's was seen before; from now on it was."""
        if message_id in self.known:
            return True
        self._remember(message_id, begun=False)
        return False

    def begin_turn(self, message: UserMessage) -> Turn:
        """Make a message of the user's the turn under way."""
        turn = self.begin_unseen_turn(message.id, message.model, message.created_at, message.agent)
        turn.user = message
        return turn

    def begin_unseen_turn(
        self, message_id: str, model: ModelRef, created_at: float, agent: str | None
    ) -> Turn:
        """Do the same for a message of which no more is known."""
        self.queued = None
        self._remember(message_id, begun=True)
        self.turn = Turn(message_id, created_at, agent, None, [self.new_attempt(model)])
        return self.turn

    def let_wait(self, message: UserMessage) -> None:
        """Take in that a message of the user's waits behind the turn under way."""
        self.queued = message
        self._remember(message.id, begun=False)

    def stop_turn(self, turn: Turn) -> None:
        """Take the user's word that a turn is over, whatever of it is still on its way."""
        turn.cancelled = True
        turn.running = False
        self.stopped[turn.message_id] = None
        if len(self.stopped) > MESSAGES_REMEMBERED:
            del self.stopped[next(iter(self.stopped))]

    def _remember(self, message_id: str, *, begun: bool) -> None:
        self.known[message_id] = begun
        if len(self.known) > MESSAGES_REMEMBERED:
            del self.known[next(iter(self.known))]

    def take_unwanted(self, message_id: str) -> int | None:
        """Return the attempt of ours that begins on a message though its turn is over; once."""
        switch, turn = self.switch, self.turn
        number = self.unwanted.pop(message_id, None)
        if number is None and switch is not None and switch.attempt is not None and turn is not switch.turn:
            number = switch.attempt.number if switch.turn.message_id == message_id else None
        newer_runs = turn is not None and turn.message_id != message_id and turn.running
        return None if number is None or newer_runs or self.ledger.aborted(number) else number
