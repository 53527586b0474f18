"""A toast: a short note on the screen of the person at the host."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ToastVariant: TypeAlias = Literal["info", "success", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toast:
    """What to show, and for how long."""

    title: str
    message: str
    variant: ToastVariant = "info"
    duration_s: float = 5.0


def write_toast(toast: Toast) -> dict[str, Any]:
    """Write the body of ``POST /tui/show-toast``; the host counts milliseconds."""
    return {
        "title": toast.title,
        "message": toast.message,
        "variant": toast.variant,
        "duration": round(toast.duration_s * 1000),
    }
