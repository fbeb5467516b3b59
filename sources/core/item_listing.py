"""`/api/v1/connections/{connection}/items`: what was found at a source, the newest first, with what failed and why."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from aiohttp import web

from clients.mongo import DESCENDING, translate_errors
from crds import scope
from crds.model import Model, Time
from sources.api import app, gate, problems, routes
from sources.core import assignments, counting

_MOST = 500
_STATES = {"new": (counting.NEW, counting.INDEXING), "indexed": (counting.INDEXED,), "failed": (counting.FAILED,)}
_TITLE_CHARS = 256


class Item(Model):
    """One thing of a source."""

    title: str
    """As the source has it, "" where it could not be read."""
    source_id: str
    """Its name at the source."""
    source_urn: str = ""
    """That of its task and its document; "" where it could not be read."""
    state: str
    """`new`: it has no task yet, `indexed`: it has one, `failed`: none can be made of it."""
    reason: str = ""
    """Why it failed."""
    found_at: Time
    """When it was stored, or failed first."""
    tried_again_at: Time | None = None
    """When it is tried or asked for again by itself."""
    left_out: tuple[str, ...] = ()
    """What of it is not in its text and attachments, or is there in doubt."""


class Page(Model):
    """Items of one Connection."""

    items: tuple[Item, ...]
    """The newest first."""
    truncated: bool
    """There are older ones: ask with `before`, the `foundAt` of the last one."""


ROUTE = routes.Route(
    "GET", "/api/v1/connections/{connection}/items", "What was found at a Connection, the newest first.",
    reply=Page, whole=True, query=("namespace",), optional=("state", "before", "limit"),
)  # fmt: skip


class ItemListing:
    """`database` is one of `mongo.client`."""

    def __init__(self, database: Any, assigned: assignments.Assignments) -> None:
        self._rows, self._assigned = database[assignments.ITEMS], assigned

    @property
    def served(self) -> list[routes.Served]:
        """The route, with its handler."""
        return [(ROUTE, self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        query, name = request.query, request.match_info["connection"]
        claim = await self._assigned.named(query["namespace"], name)
        if claim is None or not gate.caller(request).allows(_owner(claim), writing=False):
            raise problems.NotFound(
                f"there is no Connection {name[:100]!r} that is polled and yours to read",
                field="connection",
                remedy="kubectl get connections shows them; a suspended one is not served.",
            )
        wanted = {"connection": claim.uid, **_state(query.get("state", "")), **_before(query.get("before", ""))}
        limit = _limit(query.get("limit", "100"))
        shown = {"content": 0, "said": 0, "places": 0}
        with translate_errors("list the items"):
            found = self._rows.find(wanted, shown).sort("found", DESCENDING).limit(limit + 1)
            rows = [row async for row in found]
        return app.reply(Page(items=tuple(map(_item, rows[:limit])), truncated=len(rows) > limit))


def _owner(claim: assignments.Claim) -> scope.Scope:
    spec = claim.spec
    return scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)


def _item(row: dict[str, Any]) -> Item:
    states = {stored: name for name, several in _STATES.items() for stored in several}
    return Item(
        title=str(row.get("title") or "")[:_TITLE_CHARS],
        source_id=str(row["sourceId"]),
        source_urn=str(row.get("urn") or ""),
        state=states[row["state"]],
        reason=str(row.get("reason") or ""),
        found_at=row["found"],
        tried_again_at=row.get("retryAt") or row.get("readAgainAt"),
        left_out=tuple(row.get("leftOut", ())),
    )


def _state(text: str) -> dict[str, Any]:
    """Older versions of a thing are no items of their own."""
    if text and text not in _STATES:
        raise problems.Invalid(f"{text[:50]!r} is no state", field="state", remedy=f"One of {', '.join(_STATES)}.")
    states = _STATES[text] if text else tuple(state for several in _STATES.values() for state in several)
    return {"state": {"$in": list(states)}, "superseded": None}


def _before(text: str) -> dict[str, Any]:
    try:
        at = datetime.fromisoformat(text) if text else None
    except ValueError:
        at = None
    if text and (at is None or at.tzinfo is None):
        raise problems.Invalid(
            f"before {text[:50]!r} is no time", field="before", remedy="Give the foundAt of an item, with its zone."
        )
    return {"found": {"$lt": at}} if at is not None else {}


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST):
        raise problems.Invalid(
            f"limit {text[:50]!r} is no number from 1 to {_MOST}", field="limit", remedy="Ask with before for more."
        )
    return int(text)
