"""Why the shared file cannot be used."""


class HealthFileError(Exception):
    """The file cannot be used; the message says why and what to do. It never leaves this package.

    ``damaged`` tells that its content is no database: a new one may take its place.
    """

    def __init__(self, message: str, *, damaged: bool = False) -> None:
        super().__init__(message)
        self.damaged = damaged
