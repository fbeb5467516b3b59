"""What the sources process talks to beside its sources: an apiserver and a knowledge base that only count, and a
MongoDB-wire server of its own."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pymongo
import pymongo.errors
from aiohttp import web

from hack.cluster import jars, progress
from tests import ports
from tests.sources.git.knowledge import KUBECONFIG, Commits

_START_SECONDS = 60.0


class Outside(Commits):
    """Every task is done as soon as it is created, and all that is kept of it is its name. `twice`: names that were
    created again; a repeated request after a kill would be one. `secrets` are by name. `appeared[urn]` is when a thing
    came to its source, `lags` the seconds from then until its task."""

    def __init__(self, secrets: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.twice = 0
        self.by_connection: Counter[str] = Counter()
        self.appeared: dict[str, float] = {}
        self.lags: dict[str, list[float]] = {}
        self._secrets = {
            name: {key: base64.b64encode(value.encode()).decode() for key, value in one.items()}
            for name, one in secrets.items()
        }

    def application(self) -> web.Application:
        """Secrets beside what `Commits` answers."""
        made = super().application()
        made.router.add_get("/api/v1/namespaces/{namespace}/secrets/{name}", self._login)
        return made

    def kubeconfig(self, folder: Path) -> Path:
        """The path of one that leads here."""
        path = folder / "kubeconfig"
        path.write_text(KUBECONFIG.format(url=self.url))
        return path

    async def _login(self, request: web.Request) -> web.Response:
        return web.json_response({"kind": "Secret", "data": self._secrets[request.match_info["name"]]})

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        meta, urn = body["metadata"], body["spec"]["sourceUrn"]
        if meta["name"] in self.names:
            self.twice += 1
            return web.json_response({"kind": "Status", "reason": "AlreadyExists", "message": "there"}, status=409)
        self.names.add(meta["name"])
        name = meta["annotations"]["jervis.dev/connection"]
        self.by_connection[name] += 1
        if (since := self.appeared.pop(urn, None)) is not None:
            self.lags.setdefault(name, []).append(time.monotonic() - since)
        return web.json_response({"metadata": {"name": meta["name"], "uid": meta["name"]}}, status=201)


@contextlib.contextmanager
def mongodb(folder: Path, *, memory: bool = False) -> Iterator[str]:
    """The URI of a server whose data are in `folder`, or in its memory."""
    port = ports.free()
    # Its storage knows file systems by their prefix (h2database.com, "Pluggable File System").
    data = "nioMemFS:data.mv" if memory else str(folder / "data.mv")
    command = [*jars.mongodb(progress.Progress()), "127.0.0.1", str(port), data]
    with (folder / "mongodb.log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    uri = f"mongodb://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _START_SECONDS
        with pymongo.MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=500) as client:
            while True:
                with contextlib.suppress(pymongo.errors.PyMongoError):
                    client.admin.command("ping")
                    break
                if child.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"MongoDB's wire does not answer: {(folder / 'mongodb.log').read_text()}")
        yield uri
    finally:
        child.terminate()
        child.wait(20)
