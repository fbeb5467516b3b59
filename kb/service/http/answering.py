"""What every handler answers with, and how it reads numbers and times from a query."""

from __future__ import annotations

from datetime import datetime

import pydantic
from aiohttp import web

from crds import priority
from kb import errors


def json(reply: pydantic.BaseModel, status: int = 200) -> web.Response:
    """A wire model as a JSON answer."""
    return web.Response(status=status, text=reply.model_dump_json(by_alias=True), content_type="application/json")


def or_background(urgency: priority.Priority | None) -> priority.Priority:
    """A request without a priority is background work."""
    return priority.Priority.P3 if urgency is None else urgency


def number(request: web.Request, name: str, *, default: int, most: int) -> int:
    """A number from 1 to `most` in the query. Raises `kb.errors.Invalid`."""
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise errors.Invalid(
            f"{name}={text!r} is not a number from 1 to {most}", field=name, remedy=f"Give 1 to {most}."
        )
    return int(text)


def text(request: web.Request, name: str, *, most: int = 1024) -> str:
    """A parameter that must be in the query. Raises `kb.errors.Invalid`."""
    found = request.query.get(name, "").strip()
    if not found or len(found) > most:
        what = f"longer than {most} characters" if found else "missing"
        raise errors.Invalid(f"{name} is {what}", field=name, remedy=f"Give {name} in the query.")
    return found


def moment(request: web.Request, name: str) -> datetime | None:
    """An RFC 3339 time with its zone, if the query has one. Raises `kb.errors.Invalid`."""
    found = request.query.get(name)
    if found is None:
        return None
    try:
        made = datetime.fromisoformat(found.replace(" ", "+"))
    except ValueError:
        made = None
    if made is None or made.tzinfo is None:
        raise errors.Invalid(
            f"{name}={found!r} is no time with a zone", field=name, remedy="Give RFC 3339, as in 2026-03-02T09:00:00Z."
        )
    return made


def flag(request: web.Request, name: str) -> bool:
    """Whether the query says true; it may be left out. Raises `kb.errors.Invalid`."""
    found = request.query.get(name, "false")
    if found not in ("true", "false"):
        raise errors.Invalid(f"{name}={found!r} is neither true nor false", field=name, remedy="Give true or false.")
    return found == "true"
