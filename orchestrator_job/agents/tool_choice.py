"""Which tools a model is offered with their schemas: an agent's own, and of those of other servers what fits.

Schemas of other servers may be larger than the window. Where they have no room together, the model is given names and
one line each in the description of `open_tools`, and a schema with the next turn once it has asked for it. What has no
room even by its name is left out, and recorded with the reason. All depends on the calls alone, so that a resumed loop
offers the same.

Descriptions are text of the servers: their markup is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError

from orchestrator_job.effects.tools import bounds, port
from orchestrator_job.model import excerpt, prompt_budget, prompt_escape

OPEN = "open_tools"
_AT_ONCE = 8
_MOST_NAMED = 10
"""Tools that a prompt names as left out."""
_SCHEMAS_PART, _NAMES_PART = 4, 6
"""Parts of the window: one of so many for the schemas of other servers, and for their names."""
_LINES = (160, 60, 0)
"""Characters of each tool's line, of which the longest are taken for which all have room."""
_ABOUT = "More tools, by name. Give the names of those that you need, and you can call them with your next turn."
_DESCRIBES = frozenset({"description", "title"})


class OpenTools(port.Arguments):
    """`names` as they are listed."""

    names: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=300)], ...], Field(min_length=1, max_length=_AT_ONCE)
    ]


class Choice:
    """The tools of one agent. `own` and `others` are by name; `window` is in tokens; what is left out goes into
    `left_out`, by name, with the reason."""

    def __init__(
        self,
        own: Mapping[str, port.Tool],
        others: Mapping[str, port.Tool],
        window: int,
        left_out: MutableMapping[str, str],
    ) -> None:
        self._own = dict(own)
        self._schemas = {name: _plain(port.offered(tool)) for name, tool in others.items()}
        self._sizes = {name: len(json.dumps(schema)) for name, schema in self._schemas.items()}
        self._room = window * prompt_budget.TOKEN_BYTES // _SCHEMAS_PART
        self._open = list(self._schemas)
        self._opens: _Open | None = None
        if sum(self._sizes.values()) > self._room:
            self._open = []
            names, lines = _listed(others, window, left_out)
            others = {name: others[name] for name in names}
            self._opens = _Open(lines, others)
        self._others = dict(others)

    def get(self, name: str) -> port.Tool | None:
        """A tool that the model may call, whether its schema is shown or not."""
        return self._all().get(name)

    def add(self, tool: port.Tool) -> None:
        """Offer one more of the loop's own."""
        self._own[tool.name] = tool

    @property
    def names(self) -> Sequence[str]:
        """Those that are offered with their schemas."""
        opens = [OPEN] if self._opens is not None else []
        return [*self._own, *opens, *self._open]

    @property
    def callable(self) -> Collection[str]:
        """All that the model may call."""
        return self._all()

    def offered(self) -> list[dict[str, Any]]:
        """As the model is sent them."""
        own = [port.offered(tool) for tool in self._own.values()]
        opens = [port.offered(self._opens)] if self._opens is not None else []
        return [*own, *opens, *(self._schemas[name] for name in self._open)]

    def called(self, name: str, arguments: object) -> None:
        """What a call opens: the tools that it names, or the tool itself. Those that were opened first make room."""
        if self._opens is None:
            return
        wanted = [name]
        if name == OPEN:
            try:
                wanted = list(OpenTools.model_validate(arguments).names)
            except ValidationError:
                return
        for one in wanted:
            if one in self._others:
                self._open = [*(other for other in self._open if other != one), one]
        while len(self._open) > 1 and sum(map(self._sizes.__getitem__, self._open)) > self._room:
            self._open.pop(0)

    def _all(self) -> dict[str, port.Tool]:
        opens = {OPEN: self._opens} if self._opens is not None else {}
        return {**self._own, **opens, **self._others}


class _Open:
    """The tool `open_tools`."""

    name = OPEN
    arguments = OpenTools

    def __init__(self, lines: str, others: Mapping[str, port.Tool]) -> None:
        self.description = f"{_ABOUT}\n{lines}"
        self._others = others

    async def read(self, given: OpenTools, place: port.Place) -> port.Result:
        """Which can be called now."""
        missing = [name for name in given.names if name not in self._others]
        there = [name for name in given.names if name in self._others]
        if not there:
            return bounds.failed(f"There is no tool {', '.join(missing)[:300]}. Give names that are listed.")
        more = f" There is no tool {', '.join(missing)[:300]}." if missing else ""
        return port.Result(f"You can call {', '.join(there)} now.{more}")


def lacking(absent: Mapping[str, str], away: Collection[str]) -> list[str]:
    """For the model: the tools that are left out, with the reasons, and how many more there are; not those of the
    servers that are `away`."""
    named = {name: why for name, why in absent.items() if name.removesuffix(".*") not in away}
    shown = [f"{prompt_escape.defuse(name)} ({why.rstrip('.')})" for name, why in list(named.items())[:_MOST_NAMED]]
    more = len(named) - len(shown)
    return [*shown, f"{more} more tools of other servers"] if more else shown


def _listed(others: Mapping[str, port.Tool], window: int, left_out: MutableMapping[str, str]) -> tuple[list[str], str]:
    """The names that have room, and their lines."""
    room = window * prompt_budget.TOKEN_BYTES // _NAMES_PART
    for most in _LINES:
        lines = [_line(name, tool.description, most) for name, tool in others.items()]
        if sum(map(excerpt.size, lines)) + len(lines) <= room:
            return list(others), "\n".join(lines)
    kept = prompt_budget.leading(lines, room)
    names = list(others)[: len(kept)]
    for name in list(others)[len(kept) :]:
        left_out[name] = f"A window of {window} tokens has no room for its name; name fewer tools in its entry."
    return names, "\n".join(kept)


def _line(name: str, about: str, most: int) -> str:
    shown = " ".join(prompt_escape.defuse(about).split())
    if len(shown) > most:
        shown = f"{shown[:most].rstrip()}..." if most else ""
    return f"{name}: {shown}" if shown else name


def _plain(value: Any) -> Any:
    """A tool as it is offered, with the markup of its descriptions escaped; names and values are what the server
    wants."""
    if isinstance(value, Mapping):
        return {
            name: prompt_escape.defuse(part) if name in _DESCRIBES and isinstance(part, str) else _plain(part)
            for name, part in value.items()
        }
    return [_plain(part) for part in value] if isinstance(value, list) else value
