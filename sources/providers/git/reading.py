"""Read-only Git over smart HTTP for runs, from the clone of a Connection; the run's token is the bearer token.

A run sees the Git Connections of its namespace that are its client's, and of its project or group or of none; the Job
of an analysis those of its repository among them. Only upload-pack is served, and only what the branches reach: a clone
keeps what they had before. A replica without the clone, or with one that is behind what was read, makes it while the
caller waits by Retry-After.

Source: gitprotocol-http(5) "Smart Clients", gitprotocol-v2(5) "HTTP Transport"; git-http-backend(1).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from urllib.parse import quote

import structlog
from aiohttp import web

from crds import connection, errors
from sources import metrics
from sources.api import app, gate, problems, routes
from sources.core import assignments, limits, repositories
from sources.providers.git import clone, command, reach
from sources.providers.git import polling as git

log = structlog.get_logger("sources")
Opens = Callable[[assignments.Claim], Awaitable[git.Repository]]
_SERVICE = "git-upload-pack"
REPOSITORY = "Jervis-Repository"
"""Header of the list of branches: `org/name` of the repository, percent-encoded."""
_REQUEST, _RESULT = f"application/x-{_SERVICE}-request", f"application/x-{_SERVICE}-result"
_ADVERTISEMENT = f"application/x-{_SERVICE}-advertisement"
_CHUNK = 1 << 16
_MAKING_SECONDS = 10.0
_MOST_WANTS = 100_000
"""Of one request: a clone that fetches missing files asks for each."""
_WANT = re.compile(rb"want ([0-9a-fA-F]{40})")
_UNCACHED = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}
REFS = routes.Route(
    "GET", "/api/v1/git/{connection}/info/refs", "The branches of a Git Connection (smart HTTP)",
    raw_reply=True, runs=True, analyses=True, tokens=False, whole=True, query=("service",),
)  # fmt: skip
PACK = routes.Route(
    "POST", f"/api/v1/git/{{connection}}/{_SERVICE}", "Objects of a Git Connection (smart HTTP)",
    raw_body=True, raw_reply=True, runs=True, analyses=True, tokens=False, whole=True,
)  # fmt: skip


AT_ONCE = 4
"""Requests of runs for repositories that are answered at once; more get 429."""
_SECONDS = 600.0
"""For one such answer: a large repository is packed for minutes."""


class Reading:
    """`opens` gives the repository of a Connection. `width` requests are answered at once, each for `seconds` at
    most, and as many clones made; `wall` is UTC. `hidden` takes credentials out of a message."""

    def __init__(
        self,
        assigned: assignments.Assignments,
        workspace: clone.Workspace,
        opens: Opens,
        measured: metrics.Metrics,
        *,
        width: int = AT_ONCE,
        seconds: float = _SECONDS,
        wall: Callable[[], datetime],
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._hidden = hidden
        self._assigned, self._workspace, self._opens, self._metrics = assigned, workspace, opens, measured
        self._width, self._seconds, self._wall = width, seconds, wall
        self._busy: list[str] = []
        """The namespace of each request that is answered."""
        self._making: dict[str, asyncio.Task[str]] = {}

    @property
    def served(self) -> list[routes.Served]:
        """Its routes."""
        return [(REFS, self._refs), (PACK, self._pack)]

    async def _refs(self, request: web.Request) -> web.StreamResponse:
        if request.query["service"] != _SERVICE:
            raise problems.Forbidden(
                "only git-upload-pack is served: repositories are read here, not written",
                field="service",
                remedy="Clone or fetch; push to the repository's own server.",
            )
        version = _version(request)
        start = b"" if "version=2" in version else b"001e# service=git-upload-pack\n0000"
        return await self._answer(request, ("--http-backend-info-refs",), b"", _ADVERTISEMENT, start)

    async def _repository(self, request: web.Request) -> dict[str, str]:
        """A header with what the Connection's URL names: the address of a clone here does not have it."""
        claim = await self._assigned.named(gate.run(request).namespace, request.match_info["connection"])
        return {} if claim is None else {REPOSITORY: quote(repositories.of(claim.spec.url).path, safe="/")}

    async def _pack(self, request: web.Request) -> web.StreamResponse:
        if request.content_type != _REQUEST:
            raise problems.Invalid(
                f"the body is no request of Git: {request.content_type[:100]}",
                field="Content-Type",
                remedy=f"Send {_REQUEST}; git does.",
            )
        body = await app.raw(request)
        return await self._answer(request, (), body, _RESULT, b"", wants(body))

    async def _answer(
        self,
        request: web.Request,
        arguments: tuple[str, ...],
        body: bytes,
        kind: str,
        start: bytes,
        wanted: Sequence[str] = (),
    ) -> web.StreamResponse:
        outcome = "failed"
        try:
            async with self._slot(gate.run(request).namespace):
                copy = await self._clone(request)
                if odd := await self._unreached(copy, wanted):
                    outcome = "refused"
                    return web.Response(body=_error(f"upload-pack: not our ref {odd[0]}"), content_type=kind)
                response = await self._stream(request, copy, arguments, body, kind, start)
            outcome = "ok"
            return response
        except errors.Permanent:
            outcome = "refused"
            raise
        except errors.Operational:
            outcome = "away"
            raise
        finally:
            self._metrics.git_reads.labels(outcome).inc()

    @asynccontextmanager
    async def _slot(self, namespace: str) -> AsyncIterator[None]:
        if len(self._busy) >= self._width or namespace in limits.full(self._busy, self._width):
            raise problems.Crowded(f"{len(self._busy)} of {self._width} repositories are read at once already")
        self._busy.append(namespace)
        try:
            yield
        finally:
            self._busy.remove(namespace)

    async def _clone(self, request: web.Request) -> clone.Clone:
        run, name = gate.run(request), request.match_info["connection"]
        claim = await self._assigned.named(run.namespace, name)
        if (
            claim is None
            or claim.spec.type is not connection.Type.GIT
            or not repositories.visible(claim.spec, run.scope)
            # An analysis is of one repository; that of the Connection may be another one since its Job was made.
            or (run.analysis and repositories.of(claim.spec.url).path != run.repository)
        ):
            raise problems.NotFound(
                f"there is no Git Connection {name[:100]!r} that is polled in the run's namespace and scope",
                field="connection",
                remedy="kubectl get connections shows them; a suspended one is not served.",
            )
        copy = self._workspace.clone(claim.uid)
        if not await self._has(copy, claim):
            await self._make(claim)
        return copy

    async def copy(self, namespace: str, name: str, url: str, commits: Sequence[str]) -> clone.Clone:
        """The clone of a Git Connection at `url`, which has what was read, and these commits if the remote has them on
        a branch that is read. Raises `crds.errors.Operational`."""
        claim = await self._assigned.named(namespace, name)
        if claim is None or claim.spec.type is not connection.Type.GIT or claim.spec.url != url:
            raise errors.Operational(f"Connection {name} is not polled yet as it is now", retry_after=_MAKING_SECONDS)
        copy = self._workspace.clone(claim.uid)
        # After a change of URL the clone is of the other repository until it is read.
        if claim.cursor.get("of") != git.cursor_of(claim.spec) or not await self._has(copy, claim, commits):
            await self._make(claim)
        return copy

    async def _has(self, copy: clone.Clone, claim: assignments.Claim, commits: Sequence[str] = ()) -> bool:
        read = [at["at"] for at in claim.cursor.get("branches", {}).values() if at.get("at")]
        return await asyncio.to_thread(copy.has, [*read, *commits])

    async def _unreached(self, copy: clone.Clone, wanted: Sequence[str]) -> list[str]:
        def find() -> list[str]:
            return reach.lacking(copy.path, copy.tips(), wanted, seconds=self._seconds)

        return await asyncio.to_thread(find) if wanted else []

    async def _make(self, claim: assignments.Claim) -> None:
        """Return if the clone was just made; it is made once, however many ask."""
        making = self._making.get(claim.uid)
        if making is None:
            failed = claim.state.workspace
            left = (failed.retry_at - self._wall()).total_seconds() if failed and failed.retry_at else 0.0
            if failed is not None and left > 0:
                # The pauses of the polls hold for runs too: a server may lock a login that fails too often.
                raise errors.Operational(f"the repository cannot be cloned: {failed.error}", retry_after=left)
            if len(self._making) >= self._width:
                raise problems.Crowded(f"{self._width} clones are made at once already")
            making = asyncio.create_task(self._made(claim), name=f"clone {claim.namespace}/{claim.name}")
            self._making[claim.uid] = making
            making.add_done_callback(lambda _: self._making.pop(claim.uid, None))
        done, _ = await asyncio.wait([making], timeout=_MAKING_SECONDS)
        why = making.result() if done else "this replica is making its clone"
        if why:
            raise errors.Operational(f"the repository is not here yet: {why}", retry_after=_MAKING_SECONDS)

    async def _made(self, claim: assignments.Claim) -> str:
        """ "", or why not."""
        try:
            await (await self._opens(claim)).bring()
        except errors.JervisError as error:
            log.info("clone for a run not made", connection=claim.name, reason=error.message)
            return self._hidden(error.message)
        return ""

    async def _stream(
        self, request: web.Request, copy: clone.Clone, arguments: tuple[str, ...], body: bytes, kind: str, start: bytes
    ) -> web.StreamResponse:
        environment = {**command.environment(), "GIT_PROTOCOL": _version(request)}
        process = await asyncio.create_subprocess_exec(
            "git", "upload-pack", "--strict", "--stateless-rpc", *arguments, str(copy.path),
            env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        named = await self._repository(request) if kind == _ADVERTISEMENT else {}
        response = web.StreamResponse(headers={**_UNCACHED, **named, "Content-Type": kind})
        try:
            async with asyncio.timeout(self._seconds):
                process.stdin.write(body)
                process.stdin.close()
                some = start + await process.stdout.read(_CHUNK)
                if some == start and await process.wait():
                    raise problems.Invalid("git upload-pack refuses the request", field="body")
                await response.prepare(request)
                while some:
                    await response.write(some)
                    some = await process.stdout.read(_CHUNK)
                if await process.wait() and not kind.endswith("result"):
                    raise errors.Operational("git upload-pack broke off")
                await response.write_eof()
        except TimeoutError as error:
            raise errors.Operational(f"the answer took longer than {self._seconds:.0f} s") from error
        finally:
            if process.returncode is None:
                command.end(process.pid)
                await process.wait()
        return response


def wants(body: bytes) -> list[str]:
    """The objects that a request for a pack asks for, of any version of the protocol; gitprotocol-common(5) "pkt-line
    Format". Raises `problems.Invalid`."""
    found: list[str] = []
    at = 0
    while at < len(body):
        head = body[at : at + 4]
        size = int(head, 16) if re.fullmatch(rb"[0-9a-fA-F]{4}", head) else -1
        line = body[at + 4 : at + size]
        if size in (-1, 3) or len(line) != max(0, size - 4) or len(found) > _MOST_WANTS:
            raise problems.Invalid("the body is no request of Git", field="body", remedy="Send what git sends.")
        if line.startswith(b"want "):
            match = _WANT.match(line)
            if match is None:
                raise problems.Invalid("the body wants something else than an object", field="body")
            found.append(match[1].decode("ascii").lower())
        at += max(4, size)
    return found


def _error(text: str) -> bytes:
    line = f"ERR {text}".encode()
    return b"%04x%s" % (len(line) + 4, line)


def _version(request: web.Request) -> str:
    said = request.headers.get("Git-Protocol", "")
    return said if re.fullmatch(r"version=[012]", said) else ""
