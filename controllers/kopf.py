"""What kopf keeps of every object it sees: nothing.

kopf remembers a record per object for daemons, timers and change detection, and compares each event with the state it
handled last, copying the whole object to do so. Our handlers only enqueue and the index (`pendingtask.index`) remembers
what decisions need, so both are pure cost: memory for every live task, Job and pod, and time for every event.
"""

from __future__ import annotations

from typing import Any, cast

import kopf
from kopf._cogs.structs import bodies, ephemera
from kopf._core.reactor import inventory


class Memories(inventory.ResourceMemories):
    """Gives every event a fresh record and keeps none. kopf takes it as an argument, but does not export its class."""

    async def recall(
        self,
        raw_body: bodies.RawBody,
        *,
        memobase: ephemera.AnyMemo | None = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = False,
    ) -> inventory.ResourceMemory:
        """A record that lasts as long as the event; the memo is the process's own, not a copy."""
        memo = ephemera.AnyMemo(kopf.Memo()) if memobase is None else memobase
        return inventory.ResourceMemory(memo=memo, noticed_by_listing=noticed_by_listing)


class Differences(kopf.DiffBaseStorage):
    """No object has an essence, so none is copied, compared or stored."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Nothing."""
        return cast("kopf.BodyEssence", {})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Nothing."""
        return None

    def store(self, **_: Any) -> None:
        """Nowhere."""
