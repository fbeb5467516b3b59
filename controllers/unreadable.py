"""Objects that cannot be parsed: which field it is, and the condition that says so.

Made of plain values from the object as the API serves it: it goes through none of the code that has failed. The
apiserver takes some values that `crds` cannot hold, the year 9999 for instance. The condition `Ready` is for
Connections and GpuBackends; `pendingtask.failures` writes that of a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pydantic

import kube
from crds import conditions

REASON = "Unreadable"
_MOST_CONDITIONS = 16


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object as the API serves it, and which field of it cannot be parsed."""

    object: kube.Object
    field: str
    why: str

    @classmethod
    def of(cls, raw: kube.Object, error: pydantic.ValidationError) -> Unreadable:
        """Where and why; the error's own text would show what stands there."""
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return cls(raw, ".".join(str(part) for part in first["loc"]), str(first["msg"]))

    @property
    def message(self) -> str:
        """For the condition: the field, the reason and the remedy."""
        return f"Field: {self.field}. {self.why}. Correct the field; until then the object is not served."[:1024]

    def status(self, now: datetime) -> dict[str, Any]:
        """Merge patch of the status: Ready=False; empty when it already says so."""
        known: list[dict[str, Any]] = (self.object.get("status") or {}).get("conditions") or []
        before: dict[str, Any] = next((one for one in known if one.get("type") == "Ready"), {})
        generation = self.object["metadata"].get("generation") or 0
        made = conditions.make("Ready", False, REASON, self.message, now=now, generation=generation).wire()
        if all(before.get(key) == made[key] for key in ("status", "reason", "message", "observedGeneration")):
            return {}
        if before.get("status") == made["status"]:
            made["lastTransitionTime"] = before["lastTransitionTime"]
        others = [one for one in known if one.get("type") != "Ready"]
        return {"conditions": [*others[: _MOST_CONDITIONS - 1], made]}
