"""The exceptions of this package: one small tree, each with a stable code."""

from typing import ClassVar


class FallbackPluginError(Exception):
    """Base of every error this package raises on purpose.

    ``code`` is stable over releases; match on it rather than on the message.
    """

    code: ClassVar[str] = "error"


class ModelRefError(FallbackPluginError, ValueError):
    """A model name is not of the form ``provider/model[:variant]``."""

    code = "model_ref"


class SettingsError(FallbackPluginError):
    """Settings cannot be read; the message carries ``file:line[:column]`` and what to do."""

    code = "settings"


class WireError(FallbackPluginError, ValueError):
    """A known host shape lacks a field it always has."""

    code = "wire"


class ProtocolError(FallbackPluginError):
    """The other end of the bridge does not speak our protocol."""

    code = "protocol"


class HostCallError(FallbackPluginError):
    """A call to the host failed; ``status`` is its HTTP status, None when there was no answer."""

    code = "host_call"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class HostCallTimeoutError(HostCallError):
    """The host did not answer a call before its deadline."""

    code = "host_call_timeout"


class PluginLoadError(FallbackPluginError):
    """A plugin cannot be imported or registered; the message names it and its origin."""

    code = "plugin_load"


class InstallError(FallbackPluginError):
    """Installing into a host is not possible, or an extra is missing; the message says why and what to do."""

    code = "install"


class AgentError(FallbackPluginError):
    """The agent host cannot do what was asked; the message says why, ``status`` is the HTTP status for it."""

    code = "agent"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class SessionBusyError(AgentError):
    """A session is at work, so that what was asked cannot be done now: stop it, or wait until it is idle."""

    code = "session_busy"

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(message, status=409)
        self.session_id = session_id


class StoreError(AgentError):
    """The store of the sessions cannot be opened, read or written; the message says what to do.

    Attributes:
        may_pass: whether the same write may succeed later, e.g. once a full disk has room again.
    """

    code = "store"

    def __init__(self, message: str, *, status: int = 500, may_pass: bool = False) -> None:
        super().__init__(message, status=status)
        self.may_pass = may_pass


class FencedError(AgentError):
    """A run that has ended, or was taken off its lane, tried to write."""

    code = "fenced"

    def __init__(self, message: str, *, status: int = 409) -> None:
        super().__init__(message, status=status)


class TraceError(FallbackPluginError):
    """A file given to `simulate` is no recording of a host; the message names the line."""

    code = "trace"
