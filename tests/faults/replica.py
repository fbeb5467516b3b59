"""One replica of the operator and its kubelet: started again whenever it ends, killed when its liveness is lost.

`kill` is the faults' own SIGKILL; `freeze` and `thaw` are SIGSTOP and SIGCONT, during which no probe is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests import waiting
from tests.faults import operators
from tests.faults.door import Door
from tests.faults.faults import Decide, Fate
from tests.faults.http_door import HttpDoor
from tests.faults.journal import Journal
from tests.faults.mongo_door import MongoDoor
from tests.faults.operators import Operator
from tests.faults.sites import Call, of_api, of_knowledge

PROBE_SECONDS = 1.0
FAILURES = 3
FAULT = "fault"
"""Why a process was killed, when that is what was to be tried."""
_RESTART_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """One end of the process: exit code (negative: a signal), why it was killed, if it was, and whether it had been
    asked to end before."""

    code: int
    why: str
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Partners:
    """Whom the operator speaks to; the last three see `HttpDoor`."""

    api: tuple[str, int]
    tls: ssl.SSLContext
    knowledge: tuple[str, int]
    mongodb: tuple[str, int]
    database: str
    watch_seconds: int = 0
    silent_seconds: float = 600.0
    speak: Callable[[str], Awaitable[None]] | None = None


class Replica:
    """`decide` may be changed at any time; it is asked about every request of this replica."""

    def __init__(
        self,
        identity: str,
        directory: Path,
        settings: Mapping[str, object],
        namespaces: Sequence[str],
    ) -> None:
        self._namespaces = namespaces
        self.identity, self.log = identity, directory / f"{identity}.log"
        self._kubeconfig, self._settings = directory / f"{identity}.kubeconfig", dict(settings)
        self.journal = Journal()
        self.decide: Decide = lambda call: None
        self.doors: tuple[Door, ...] = ()
        self.api: HttpDoor | None = None
        self.ended: list[Ended] = []
        self.starts = 0
        self._operator: Operator | None = None
        self._why, self._asked = "", False
        self._frozen = False
        self._crew: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def running(self, partners: Partners) -> AsyncIterator[Replica]:
        """Doors open, process kept alive until the end of the block. Its log stays."""

        def decide(call: Call) -> Fate | None:
            return self.decide(call)

        api = HttpDoor(partners.api, self.journal, decide, self.kill, partners.tls, classify=of_api)
        api.watch_seconds, api.silent_seconds = partners.watch_seconds, partners.silent_seconds
        api.speak = partners.speak
        self.api = api
        knowledge = HttpDoor(partners.knowledge, self.journal, decide, self.kill, classify=of_knowledge)
        mongodb = MongoDoor(partners.mongodb, self.journal, decide, self.kill)
        self.doors = (api, knowledge, mongodb)
        for door in self.doors:
            await door.open()
        self._kubeconfig.write_text(_kubeconfig(f"http://{api.address}"))
        self._settings |= {
            "IDENTITY": self.identity,
            "KUBECONFIG": self._kubeconfig,
            "KB_URL": f"http://{knowledge.address}",
            "MONGODB_URI": f"mongodb://{mongodb.address}",
            "MONGODB_DATABASE": partners.database,
        }
        self._crew = [asyncio.create_task(self._keep(), name=f"kubelet of {self.identity}")]
        try:
            yield self
            for one in self._crew:
                if one.done():
                    one.result()
        finally:
            for one in self._crew:
                one.cancel()
            await asyncio.gather(*self._crew, return_exceptions=True)
            self.kill("the end")
            for door in self.doors:
                await door.shut()

    def kill(self, why: str = FAULT) -> None:
        """SIGKILL; the kubelet starts it again."""
        if self._operator is not None and self._operator.code is None:
            self._why = why
            self._operator.kill()

    def stop(self) -> None:
        """SIGTERM: it hands its Lease over and ends; the kubelet starts it again."""
        assert self._operator is not None
        self._asked = True
        self._operator.signal(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP."""
        assert self._operator is not None
        self._frozen = True
        self._operator.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._operator is not None
        self._operator.signal(signal.SIGCONT)
        self._frozen = False

    async def get(self, path: str) -> httpx.Response | None:
        """One of its endpoints; None when nobody answers."""
        return None if self._operator is None else await self._operator.get(path)

    async def ready(self, patience: float = waiting.PATIENCE) -> None:
        """Return once /readyz is green."""

        async def problem() -> str:
            answer = await self.get("/readyz")
            if answer is not None and answer.status_code == 200:
                return ""
            said = "it does not answer" if answer is None else answer.text
            return f"{said}\n{self.log.read_text()[-3000:] if self.log.exists() else ''}"

        await waiting.eventually(problem, f"{self.identity} is ready", good=lambda left: not left, patience=patience)

    async def _keep(self) -> None:
        """The kubelet: start, probe, start again."""
        while True:
            self._why, self._asked = "", False
            self._operator = await operators.start(self.log, self._settings, self._namespaces)
            self.starts += 1
            probing = asyncio.create_task(self._probe(self._operator))
            try:
                await self._operator.ended.wait()
            finally:
                probing.cancel()
            assert self._operator.code is not None
            self.ended.append(Ended(self._operator.code, self._why, self._asked))
            await asyncio.sleep(_RESTART_SECONDS)

    async def _probe(self, operator: Operator) -> None:
        """Kill it when its liveness is lost."""
        failures = 0
        while failures < FAILURES:
            await asyncio.sleep(PROBE_SECONDS)
            answer = None if self._frozen else await operator.get("/healthz")
            # Until it listens it is starting, which the real pod's startup probe waits for.
            failures = failures + 1 if answer is not None and answer.status_code != 200 else 0
        assert answer is not None
        self.kill(f"liveness: {answer.text}")


def _kubeconfig(server: str) -> str:
    """Plain HTTP to the door, which has the certificate."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "door",
        "clusters": [{"name": "door", "cluster": {"server": server}}],
        "contexts": [{"name": "door", "context": {"cluster": "door", "user": "door"}}],
        "users": [{"name": "door", "user": {}}],
    }
    return json.dumps(content)
