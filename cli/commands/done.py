"""The last line of every command that changes a task."""

from __future__ import annotations

from rich import text

from cli.reading import Object
from cli.session import Session


def say(session: Session, raw: Object, written: bool, what: str, *, otherwise: str) -> None:
    """`NAME what` as kubectl words it, or `NAME otherwise` when nothing had to be written."""
    name = f"pendingtask.jervis.dev/{raw['metadata']['name']}"
    session.output.show(raw, text.Text(f"{name} {what if written else otherwise}{session.trial}"))
