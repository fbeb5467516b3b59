"""`jervis-kb ask --answer`: the decision agent's events, drawn as a tree as they happen."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from cli import codes
from kb import api, client
from text import printable

_LINE_CHARS = 200
_SHOWN = 5
"""Objects of a result that are drawn."""


class Tree:
    """Writes each event when it comes: decisions as branches, what they gave below them, the answer behind them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._writing = self._drawn = False
        self.outcome = "failed"

    def show(self, event: api.AgentEvent) -> None:
        """The next event."""
        if event.type == "token":
            if not self._writing:
                self._out.write("│\n" if self._drawn else "")
            self._writing = True
            self._out.write(printable.text(event.content or ""))
        elif event.type == "decision":
            self._line("├─ ", f"{event.tool}: {event.reasoning or ''}")
        elif event.type == "result":
            self._result(event)
        elif event.type == "error":
            self._line("│  ! ", " ".join(part for part in (event.message, event.suggestion) if part))
        elif event.type == "status":
            self._line("│  ", event.message or "")
            if event.verdict and event.content:
                self._line("│    ", event.content or "")
        else:
            self._end(event)
        self._out.flush()

    def _result(self, event: api.AgentEvent) -> None:
        objects = event.objects or []
        self._line("│  ", event.message or f"{len(objects)} objects")
        for one in objects[:_SHOWN]:
            number = f"[{one['ref']}] " if "ref" in one else ""
            named = " ".join(str(one[name]) for name in ("title", "sourceUrn") if one.get(name))
            page = f", page {one['page']}" if one.get("page") else ""
            self._line(
                "│    ", number + ((named + page) if named else str(one.get("text") or one.get("summary") or ""))
            )
            if one.get("interpretation"):
                self._line("│        ", str(one["interpretation"]))
        if len(objects) > _SHOWN:
            self._line("│    ", f"and {len(objects) - _SHOWN} more")

    def _end(self, event: api.AgentEvent) -> None:
        self.outcome = event.outcome or "failed"
        if self._writing:
            self._out.write("\n")
            self._writing = False
        if self.outcome != "answered":
            self._line("└─ ", f"{self.outcome}: {event.reason or ''}")
            if event.reasoning:
                self._line("   ", f"The model says: {event.reasoning}")
            return
        for one in event.citations or []:
            page = f", page {one.page}" if one.page is not None else ""
            seen = ", as a vision model saw it" if one.interpreted else ""
            named = " ".join(part for part in (one.title, one.source_urn) if part)
            self._out.write("\n" + printable.line(f"[{one.ref}] {named}{page}{seen}", _LINE_CHARS))
            for quote in one.quotes:
                self._out.write("\n    " + printable.line(f'"{quote}"', _LINE_CHARS))
        self._out.write("\n" if event.citations else "")

    def _line(self, before: str, said: str) -> None:
        if self._writing:
            self._out.write("\n")
            self._writing = False
        self._drawn = True
        self._out.write(before + printable.line(said, _LINE_CHARS) + "\n")


async def run(kb: client.Client, asked: api.AgenticSearch, *, lines: bool) -> int:
    """The exit status: 1 where the question cannot be answered, 75 where it may be later. `lines`: events as JSON."""
    tree = Tree(sys.stdout)
    async with kb.agent.ask(asked) as events:
        async for event in events:
            if lines:
                written = event.model_dump(mode="json", by_alias=True, exclude_none=True)
                sys.stdout.write(json.dumps(written, ensure_ascii=False) + "\n")
                sys.stdout.flush()
                tree.outcome = event.outcome or tree.outcome
            else:
                tree.show(event)
    return {"answered": 0, "impossible": codes.REFUSED}.get(tree.outcome, codes.LATER)
