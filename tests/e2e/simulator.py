"""The simulators' test door (`/simulator/*`), reached through the apiserver as any Service is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

GATE = "e2e"


class Simulator:
    """One simulator's Service, for example jervis-ollama-gpu."""

    def __init__(self, services: httpx.Client, name: str) -> None:
        self._services = services
        self._root = f"/{name}:11434/proxy/simulator"

    def faults(self, *faults: dict[str, Any]) -> None:
        """Put these in force instead of the ones before; see tests/fakes/ollama/faults.py."""
        self._call("PUT", "/faults", list(faults))

    def script(self, answers: Mapping[str, Sequence[Any]]) -> None:
        """Answers by prompt tag, instead of those before; see tests/fakes/ollama/script.py."""
        self._call("PUT", "/script", dict(answers))

    def open_gate(self) -> None:
        """Let go on what stalls at the gate, now and later."""
        self._call("PUT", f"/gates/{GATE}")

    def shut_gate(self) -> None:
        """Requests stall there again."""
        self._call("DELETE", f"/gates/{GATE}")

    def waiting(self) -> int:
        """How many requests stall at the gate."""
        return int(dict(self.state()["gates"]).get(GATE, 0))

    def state(self) -> dict[str, Any]:
        """`GET /simulator/state`."""
        found: dict[str, Any] = self._call("GET", "/state")
        return found

    def requests(self, **fields: str) -> list[dict[str, Any]]:
        """Journal entries with these fields, oldest first."""
        query = "&".join(f"{name}={value}" for name, value in fields.items())
        return list(self._call("GET", f"/requests?{query}")["requests"])

    def forget(self) -> None:
        """Empty the journal."""
        self._call("DELETE", "/requests")

    def _call(self, method: str, path: str, body: object = None) -> Any:
        answer = self._services.request(method, self._root + path, json=body)
        answer.raise_for_status()
        return answer.json()
