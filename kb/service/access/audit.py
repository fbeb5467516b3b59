"""The audit record: who read, wrote or erased, in which scope, and with which result; one JSON line a request.

Who it was is what the gate found out, never what a body says of itself. A line holds names of tokens, scopes, ids and
routes; no text, no title, no source URN and no token, because those who may read logs may not therefore read documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import orjson

from crds import scope


class Action(StrEnum):
    """What a request is for."""

    READ = "read"
    WRITE = "write"
    ERASE = "erase"


@dataclass
class Entry:
    """What is known of a request when it is answered. `who` is "" for a caller that showed no token that is known.

    `kind` is token, run or none. `scopes` are those that it named, whether they were granted or not; `documents` are
    ids that follow from owner and source URN (`kb.identity`). `status` is the HTTP status, 499 for a caller that left.
    """

    action: Action
    route: str
    who: str = ""
    kind: str = "none"
    scopes: list[scope.Scope] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    status: int = 499
    trace: str = ""


class Trail:
    """Writes the lines with `write`; `clock` gives the time in UTC; without `reads` only of what changes something."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], datetime], *, reads: bool = True) -> None:
        self._write = write
        self._clock = clock
        self._reads = reads

    def record(self, entry: Entry) -> None:
        """Write one line, unless it is of a kind that is not asked for. A refused one is written in any case."""
        refused = entry.status in (401, 403)
        if entry.action is Action.READ and not self._reads and not refused:
            return
        line = {
            "event": "audit",
            "timestamp": self._clock().isoformat(),
            "action": entry.action.value,
            "route": entry.route,
            "caller": {"kind": entry.kind, "name": entry.who},
            "scopes": _distinct(entry.scopes),
            "documents": list(dict.fromkeys(entry.documents)),
            "status": entry.status,
            **({"trace": entry.trace} if entry.trace else {}),
        }
        self._write(orjson.dumps(line).decode())


def _distinct(scopes: Sequence[scope.Scope]) -> list[dict[str, str]]:
    return [where.model_dump(by_alias=True) for where in dict.fromkeys(scopes)]
