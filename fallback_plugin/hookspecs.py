"""Every hook a plugin may implement, grouped by lifecycle: host, session, message, model, tool, memory.

An implementation is marked with `hookimpl`, may be ``def`` or ``async def``, and takes any subset of the
arguments by name. Unless a hook says otherwise:

*Order.* Hooks about one session reach a plugin in the host's order, one at a time; sessions run side by side.
*Deadline.* An implementation is cut after `NOTIFY_DEADLINE_S`; a plain ``def`` must not block.
*Failure.* What it raises is logged with plugin, distribution and hook; other plugins are not affected.
*Return value.* Ignored, except in the *first result wins* hooks: there implementations are asked in order
until one returns something other than None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import pluggy

from fallback_plugin.events import (
    Ending,
    Event,
    HostError,
    MessagePartDelta,
    MessagePartUpdated,
    MessageRemoved,
    MessageUpdated,
    ModelRequested,
    SessionAbortRequested,
    SessionCompacted,
    SessionCreated,
    SessionDeleted,
    SessionError,
    SessionIdle,
    SessionStatus,
)
from fallback_plugin.host_client import HostClient
from fallback_plugin.model_ref import ModelRef

if TYPE_CHECKING:
    from click import Group

    from fallback_plugin.settings import Settings

PROJECT: Final = "fallback_plugin"
"""Name of the pluggy project and of the entry point group."""

NOTIFY_DEADLINE_S: Final = 5.0
"""How long one implementation may take for one notification."""

QUESTION_DEADLINE_S: Final = 0.25
"""How long all implementations together may take for a question that a turn waits on."""

CONFIRMATION_DEADLINE_S: Final = 1.0
"""The same for ``confirm_prompt``."""

TOOL_RESULT_DEADLINE_S: Final = 120.0
"""The same for ``tool_after``, which may have to wait for a child session."""

RUN_ENDING_DEADLINE_S: Final = 3600.0
"""The same for ``run_ending``, which waits for whole turns."""

OPEN_MEMORY_DEADLINE_S: Final = 5.0
"""The same for ``open_session_memory``: a turn waits while its memory is opened."""

ACTIVITY_EVERY_S: Final = 1.0
"""About how long after one ``message_activity`` the next one about the same session may come."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest:
    """A prompt on its way to a model.

    ``model`` is None if the prompt leaves the choice to the host; ``resolved`` is what the host will run it
    on if nobody answers, None where it does not tell.
    """

    session_id: str
    message_id: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    resolved: ModelRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAttempt:
    """A request to a model that failed, in all but one ending before anything of its answer was handed on.

    In the question `background_model` it is one that is about to be made: ``tried`` is empty.

    Attributes:
        message_id: the person's message that is to be answered.
        host_model: the model that the host asked, and will name as the author of the answer.
        model: the model that was asked in the end.
        tried: all models this request was sent to, in order; ``model`` is the last.
        error: what came back. It has words where ``ending`` is ``refused``, and where it is ``broken`` by an
            error: its body is what the provider said, its message how the connection ended.
        reachable: the models that the request could be sent to.
        obstacle: why there is none, where that lies in the request itself.
        is_fixed: whether it could only be sent as it is. Our own host makes a new one for the next model,
            with its variant, and names that model as the author of the answer.
        awaited: whether another process of ours waits for the answer, which is the one to speak of it.
    """

    session_id: str
    message_id: str
    agent: str | None
    host_model: ModelRef
    model: ModelRef
    tried: tuple[ModelRef, ...]
    error: HostError
    ending: Ending = "refused"
    reachable: frozenset[ModelRef] = frozenset()
    obstacle: str | None = None
    is_fixed: bool = True
    awaited: bool = False


Confirmation: TypeAlias = Literal["go", "stop"]
"""Whether the model of a prompt that was handed in is to be asked."""

NextModel: TypeAlias = ModelRef | Literal["final"]
"""Whom to ask instead; ``final`` hands the failure to the host so that it does not try again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWords:
    """What a run prints before it ends: parts of an answer as the host stores them, and what went wrong."""

    parts: Sequence[Mapping[str, Any]] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool about to run, or just run. ``args`` is what the model asked for."""

    session_id: str
    call_id: str
    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool returned to the model."""

    title: str
    output: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySegment:
    """Completed turns of a session that a memory has still to keep.

    Attributes:
        session_id: the session.
        key: the segment's name. One that comes again after a failure has the same, unless it has grown: then
            ``start`` is the same, and it replaces what came before.
        start: number of its first turn, counted over the session's completed turns from 1.
        end: number of its last turn.
        owner_key: the configuration of memory providers it was marked for.
    """

    session_id: str
    key: str
    start: int
    end: int
    owner_key: str = ""


@runtime_checkable
class OpenMemory(Protocol):
    """What a plugin has open for a session, a database for example. Got from ``open_session_memory``.

    Both methods have `NOTIFY_DEADLINE_S` each.
    """

    @property
    def owner_key(self) -> str:
        """The configuration that it belongs to, as a name that means the same after a restart."""
        ...

    async def commit(self, segment: MemorySegment) -> None:
        """Keep a segment; it comes again if this raises. Its session may have another id by now."""
        ...

    async def close(self) -> None:
        """Let go of what is open. Called once, and never while a segment is committed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """A question whether something may be done."""

    id: str
    session_id: str
    type: str
    title: str = ""
    pattern: tuple[str, ...] = ()


@hookspec
def host_started(host: HostClient) -> None:
    """Run once, when all plugins are loaded, before any event. Since 0.1.

    Called in the host's own task, plugin by plugin, with the usual deadline.
    """


@hookspec
def host_stopping(host: HostClient) -> None:
    """Run once, when the host is about to end, after the last event. Since 0.1.

    All implementations together have the usual deadline; calls to the host may already fail.
    """


@hookspec
def settings_changed(settings: "Settings", host: HostClient) -> None:
    """Take the settings in force: once after ``host_started`` and again whenever a file changes. Since 0.1.

    Settings with errors never arrive here: the last good ones stay in force.
    """


@hookspec
def register_commands(commands: "Group") -> None:
    """Add commands to ``fallback-plugin``: ``commands`` is its command group. Since 0.1.

    Called on the command line only, synchronously, when a command is asked for that is not built in, or for
    help.
    """


@hookspec
def event(raw: Mapping[str, Any], event: Event, host: HostClient) -> None:
    """See every event, as the host sent it and normalised. Since 0.1.

    Implementing this subscribes to every type, text deltas included; prefer a narrower hook.
    Under pressure deltas of one part are merged or dropped.
    """


@hookspec
def session_created(event: SessionCreated, host: HostClient) -> None:
    """See that a session began. Since 0.1."""


@hookspec
def session_deleted(event: SessionDeleted, host: HostClient) -> None:
    """Forget a session; it is the last hook about it. Since 0.1."""


@hookspec
def session_status(event: SessionStatus, host: HostClient) -> None:
    """See a run become busy, wait to retry a failed request, or become idle. Since 0.1."""


@hookspec
def session_idle(event: SessionIdle, host: HostClient) -> None:
    """See a run end, well or not; may come twice for one run. Since 0.1."""


@hookspec
def session_abort_requested(event: SessionAbortRequested, host: HostClient) -> None:
    """See somebody ask the host to stop a session, before the host does. Since 0.2.

    Called whether a run is under way or not; not for aborts by this process. Only OpenCode's bridge can tell:
    elsewhere, and for stops from within the host, ``session_error`` and ``session_idle`` are what shows.
    """


@hookspec
def model_requested(event: ModelRequested, host: HostClient) -> None:
    """See the host ask a model for one step of a turn; not for a title. Since 0.2.

    Only OpenCode's bridge can tell. The host's own retries are told too; another model that answers in the
    place of the one asked is not.
    """


@hookspec
def session_error(event: SessionError, host: HostClient) -> None:
    """See a run fail or be aborted. Since 0.1."""


@hookspec
def session_compacted(event: SessionCompacted, host: HostClient) -> None:
    """See that the host shortened a session's history. Since 0.1."""


@hookspec
def message_updated(event: MessageUpdated, host: HostClient) -> None:
    """See a message appear or change; the same state may come several times. Since 0.1.

    History that the host copies into a fork does not come here, nor to ``message_part_updated``.
    """


@hookspec
def message_part_updated(event: MessagePartUpdated, host: HostClient) -> None:
    """See a part appear or change. Text deltas do not come here. Since 0.1.

    ``message_activity`` samples them, ``event`` gets them all.
    """


@hookspec
def message_activity(event: MessagePartDelta, host: HostClient) -> None:
    """See that an answer grows: a run's first delta, then about one in `ACTIVITY_EVERY_S`. Since 0.1.

    Text and reasoning count. The deltas in between need not be sent, so this costs next to nothing;
    ``event.delta`` is one piece of text, not what came since the last call.
    """


@hookspec
def message_removed(event: MessageRemoved, host: HostClient) -> None:
    """See a message leave the history. Since 0.1."""


@hookspec(firstresult=True)
def messages_transform(
    messages: Sequence[Mapping[str, Any]], host: HostClient
) -> Sequence[Mapping[str, Any]] | None:
    """Answer with the history to send to the model instead of ``messages``. First result wins. Since 0.1.

    ``messages`` are the host's raw ``{info, parts}``, oldest first. The turn waits `QUESTION_DEADLINE_S`,
    then goes on with the history unchanged.
    """


@hookspec(firstresult=True)
def chat_message(request: PromptRequest, host: HostClient) -> ModelRef | None:
    """Answer with the model a prompt shall run on instead of its own. First result wins. Since 0.1.

    Asked before the message is stored and before any request is made. The turn waits `QUESTION_DEADLINE_S`,
    then goes on unchanged. Replays of a turn come here as well, with the ``message_id`` of that turn.
    """


@hookspec(firstresult=True)
def confirm_prompt(session_id: str, message_id: str | None, host: HostClient) -> Confirmation | None:
    """Answer ``stop`` to end the run of a prompt before its model is asked. First result wins. Since 0.2.

    Asked once for each prompt that was handed in by `HostClient.prompt`, right before its first request: what
    has happened since, a stop of the user above all, has been delivered by then. Without an answer within
    `CONFIRMATION_DEADLINE_S` the model is asked. Only OpenCode's bridge asks.
    """


@hookspec(firstresult=True)
def model_attempt_failed(attempt: ModelAttempt, host: HostClient) -> NextModel | None:
    """Answer a failed request with another model, before the host hears of it. First result wins. Since 0.1.

    Without an answer within `QUESTION_DEADLINE_S` the host gets the failure as it came. Asked once for every
    model a request was sent to; never after the person stopped the turn. An answer that is ``broken`` can be
    handed on as a failure, and no model can take it over.
    """


@hookspec(firstresult=True)
def background_model(attempt: ModelAttempt, host: HostClient) -> ModelRef | None:
    """Answer with the model that makes a title or a summary instead of its own. First result wins. Since 0.2.

    Asked before the request is made, which waits `QUESTION_DEADLINE_S`. The models of the user's turns are
    chosen by `chat_message`. Only OpenCode's bridge asks, where it asks `model_attempt_failed`.
    """


@hookspec(firstresult=True)
def run_ending(session_id: str, host: HostClient) -> LastWords | None:
    """Answer a turn that has failed before what waits for it ends. First result wins. Since 0.1.

    `opencode run` ends with its first turn, failed or not. It waits for the answer, prints it, and ends with
    status 0 if there is no trouble in it; None leaves its own end as it is. `opencode acp` asks at the end of
    every turn: the editor's prompt then ends with the session's last answer, or fails with the trouble. A
    server asks before it responds to a client that waits for its prompt: the response then holds the last
    answer to it.
    """


@hookspec(firstresult=True)
def tool_before(call: ToolCall, host: HostClient) -> Mapping[str, Any] | None:
    """Answer with other arguments for a tool about to run. First result wins. Since 0.1.

    The tool waits `QUESTION_DEADLINE_S`, then runs with the arguments unchanged.
    """


@hookspec(firstresult=True)
def tool_after(call: ToolCall, result: ToolResult, host: HostClient) -> ToolResult | None:
    """Answer with another result for a tool that has run. First result wins. Since 0.1.

    The turn waits `TOOL_RESULT_DEADLINE_S`, then goes on with the result unchanged.
    """


@hookspec(firstresult=True)
def permission_ask(request: PermissionRequest, host: HostClient) -> Verdict | None:
    """Answer a permission request in the user's stead. First result wins. Since 0.1.

    Without an answer within `QUESTION_DEADLINE_S` the user decides. OpenCode asks the user at the same moment
    and takes the first reply; ``opencode run`` replies by itself, so this is not called there.
    """


@hookspec
def turn_completed(session_id: str, turn: Any, host: HostClient) -> None:  # noqa: ANN401 -- the agent host's own type
    """See a turn end for good: its last step is stored and nothing of it will run again. Since 0.1.

    Only our own agent host knows this for certain and calls it; OpenCode does not.
    """


@hookspec
def commit_session_memory(session_id: str, segment: MemorySegment, host: HostClient) -> None:
    """Keep a segment of a session's history in a memory of the plugin's. Since 0.1.

    Only our own agent host calls it, when work on a session pauses: at its end, when another one begins, when
    the host stops. If any plugin raises or misses its deadline the segment comes again, to all of them. A
    memory that has to stay open between segments is better got from ``open_session_memory``.
    """


@hookspec(firstresult=True)
def open_session_memory(session_id: str, owner_key: str | None, host: HostClient) -> OpenMemory | None:
    """Open what a memory needs for a session, before its next turn. First result wins. Since 0.1.

    Only our own agent host asks. The turn waits `OPEN_MEMORY_DEADLINE_S`, then begins without. The handle
    stays open over many turns, gets the segments that were marked for its ``owner_key``, and is closed once
    these are committed: when the session is deleted, has not been used for long, or the host stops. After
    settings changed the next turn asks anew; another answer takes the place of the handle there was.

    ``owner_key`` is None for the configuration in force. Otherwise turns wait that were marked for this one,
    and nothing of it is open: answer None if it exists no more. That handle is closed after one segment.
    """
