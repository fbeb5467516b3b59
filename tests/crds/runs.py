"""A run, as its token tells of it."""

from __future__ import annotations

from typing import Any

from contracts.tokens import runtoken
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority


def run(uid: str = "0b7f", attempt: int = 1, **changed: Any) -> runtoken.Run:
    """Of a Background task of client acme in namespace team-a."""
    known = {"namespace": "team-a", "scope": scope.Scope(client_id="acme"), "mode": Mode.BACKGROUND}
    return runtoken.Run(task_uid=uid, attempt=attempt, **{**known, "ceiling": Priority.P3, **changed})
