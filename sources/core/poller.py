"""Polls Connections: claims one that is due, stores what its source has, has tasks created, and gives it back.

Every Connection is claimed by one process at a time. A batch is stored before the cursor moves past it. A long first
poll is cut after `MOST_BATCHES`, so that a large mailbox does not keep small ones waiting. Source: blueprint
"Connectors"; seed 000 "CentralPoller".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog

import kube
from clients import backoff, mongo
from crds import connection, errors, pendingtask, scope
from kb import client as kb
from sources import metrics
from sources.core import annotations as requested
from sources.core import assignments, counting, direct_ingest, hosts, indexer, items, limits, port, secrets, sweep
from sources.core.state import Arrival, State, Workspace

log = structlog.get_logger("sources")

IDLE_SECONDS = 1.0
AWAY_SECONDS = 5.0
WINDOW_SECONDS = 30.0
"""Items wait for finished tasks, or there are none: the next look (seed 000)."""
MOST_BATCHES = 20
MOST_READ_AGAIN = 50
"""Things of one poll that could not be read before."""
LONGEST_ASKED = 6 * 3600.0
"""A source that asks for more is asked again after so many seconds all the same."""
JITTER = 0.1
AGAIN = backoff.Doubling(first=10.0, cap=900.0)
REST = backoff.Doubling(first=5.0, cap=60.0)
"""Of a Connection whose state could not be written: its next poll is not in MongoDB."""
SUCCEEDED = "Succeeded"
_REASONS: Mapping[type[errors.JervisError], str] = {
    port.Rejected: "CredentialsRejected",
    hosts.Refused: "HostNotAllowed",
    port.Misconfigured: "Misconfigured",
    port.Unreachable: "Unreachable",
    port.DiskFull: "DiskFull",
    kb.Unavailable: "KnowledgeBaseAway",
}
CLONE = (300.0, 900.0, 1800.0, 3600.0)
"""Seconds before the next try of a clone, after the last one from the first again (seed 000 "Workspace Retry with
Exponential Backoff")."""
_SHOWN_CHARS = 4096
_MESSAGE_CHARS = 1024


Opens = Callable[[connection.Spec, Mapping[str, str], limits.Bucket], port.Source]
"""(spec, the values of its Secret, the bucket that its requests go through) -> one poll. Raises `Misconfigured`."""
OpensClaim = Callable[[assignments.Claim, Mapping[str, str], limits.Bucket], port.Source]
"""As `Opens`, for sources that have a clone of their own in each process: they are opened by the claim."""


class Poller:
    """`opens` has the protocols that there are, `stored_here` the sources of the types whose items are in MongoDB
    already, `clones` those of which each process has a clone; `width` Connections are worked on at once, and their
    claims are renewed every `renew` seconds."""

    def __init__(
        self,
        api: kube.Kube,
        knowledge: kb.Client,
        assigned: assignments.Assignments,
        stored: items.Items,
        makes: indexer.Indexer,
        sweeps: sweep.Sweeper,
        opens: Mapping[connection.Type, Opens],
        measured: metrics.Metrics,
        *,
        owner: str,
        width: int,
        renew: float,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: random.Random | None = None,
        stored_here: Mapping[connection.Type, Callable[[assignments.Claim], port.Source]] = MappingProxyType({}),
        clones: Mapping[connection.Type, OpensClaim] = MappingProxyType({}),
        read: secrets.Reader | None = None,
    ) -> None:
        self._secrets = read or secrets.Reader(api)
        self._clones = clones
        self._api, self._kb, self._assigned, self._items = api, knowledge, assigned, stored
        self._sweeper = sweeps
        self._direct_ingest = direct_ingest.DirectIngest(knowledge, assigned, measured, wall=wall)
        self._indexer, self._opens, self._metrics = makes, opens, measured
        self._stored_here = stored_here
        self._owner, self._width, self._renew = owner, width, renew
        self._wall, self._monotonic, self._sleep = wall, monotonic, sleep
        self._chance = chance or random.SystemRandom()
        self._buckets: dict[str, tuple[connection.RateLimit, limits.Bucket]] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._namespaces: dict[str, str] = {}
        self._resting: dict[str, tuple[int, float]] = {}
        """By uid: how many rounds in a row ended without a state, and until when it rests."""
        self._noted: dict[str, Workspace] = {}
        """By uid: what the clone came to in the poll that runs."""
        self._latest: dict[str, list[Arrival]] = {}
        """By uid: what the poll that runs has stored, the last ones first."""

    async def run(self) -> None:
        """Until cancelled; what is being done then is given up, and the Connections are given back."""
        try:
            while True:
                try:
                    claimed = await self._claim()
                except errors.Operational as error:
                    log.warning("no Connection claimed", reason=error.message)
                    await self._sleep(AWAY_SECONDS)
                    continue
                if not claimed:
                    await self._sleep(IDLE_SECONDS)
        finally:
            for one in self._busy.values():
                one.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _claim(self) -> bool:
        if len(self._busy) >= self._width:
            return False
        # Sources that hang, of one namespace, leave places for those of others.
        full = limits.full(self._namespaces.values(), self._width)
        now = self._monotonic()
        resting = [uid for uid, (_, until) in self._resting.items() if now < until]
        claim = await self._assigned.claim(self._owner, self._wall(), (*self._busy, *resting), full)
        if claim is None:
            return False
        work = asyncio.create_task(self._serve(claim), name=f"poll {claim.namespace}/{claim.name}")
        self._busy[claim.uid], self._namespaces[claim.uid] = work, claim.namespace
        self._metrics.active.set(len(self._busy))
        work.add_done_callback(lambda _: self._done(claim.uid))
        return True

    def _done(self, uid: str) -> None:
        self._busy.pop(uid, None)
        self._namespaces.pop(uid, None)
        self._metrics.active.set(len(self._busy))

    async def _serve(self, claim: assignments.Claim) -> None:
        failures, _ = self._resting.pop(claim.uid, (0, 0.0))
        try:
            async with self._kept(claim):
                await self.serve(claim)
            return
        except asyncio.CancelledError:
            with suppress(errors.Operational):
                await self._assigned.release(claim)
            raise
        except assignments.Lost as error:
            log.info("claim lost", reason=error.message)
            await self._forget(claim)
            with suppress(errors.Operational):
                await self._assigned.overtake(claim)
            return
        except errors.Operational as error:
            # Nothing could be written: this process still has the claim, and takes it again after a rest.
            log.warning("connection not polled", connection=claim.name, reason=error.message)
        except Exception:
            # The edge of a round: one Connection that triggers a bug of ours must not stop the others.
            self._metrics.loop_failures.inc()
            log.exception("poll failed", connection=claim.name)
        self._resting[claim.uid] = failures + 1, self._monotonic() + REST.delay(failures + 1)

    async def _forget(self, claim: assignments.Claim) -> None:
        """What this process stored while the Connection was deleted goes too: nothing else would delete it."""
        with suppress(mongo.Unavailable):
            if not await self._assigned.there(claim.uid):
                await self._items.forget(claim.uid)

    @asynccontextmanager
    async def _kept(self, claim: assignments.Claim) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await self._sleep(self._renew)
                with suppress(mongo.Unavailable):
                    await self._assigned.renew(claim, self._wall())

        keeping = asyncio.create_task(renew())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def serve(self, claim: assignments.Claim) -> None:
        """One round for one Connection: poll, create tasks, write the state. Raises `crds.errors.Operational`."""
        begun, kind, asked = self._monotonic(), claim.spec.type.value, 0.0
        self._noted.pop(claim.uid, None)
        self._latest.pop(claim.uid, None)
        claim = await requested.begun(claim, self._assigned, self._items)
        more = False
        try:
            if claim.taken:
                # What the process before still has on its way is refused from now on.
                await self._kb.observe(_owner(claim), claim.observation)
            with port.disk():
                more, claim = await self._poll(claim)
                if not more:
                    await self._read_again(claim)
                state = replace(
                    claim.state, polled_at=self._wall(), succeeded_at=self._wall(), failures=0, reason="", message="",
                    rejected=False, resynced=claim.state.resynced if more else claim.rewound,
                )  # fmt: skip
                if not more and self._sweeper.due(claim):
                    state = await self._sweep(claim, state)
                elif not more:
                    await self._sweeper.look(
                        claim, await self.source(claim), partial(self._store, claim, _owner(claim))
                    )
            outcome = SUCCEEDED
        except (assignments.Lost, mongo.Unavailable):
            raise
        except errors.JervisError as error:
            asked = (error.retry_after or 0.0) if isinstance(error, errors.Operational) else 0.0
            outcome, state = self._failed(claim, error)
        except Exception as error:
            # A source that triggers a bug of ours, such as an answer of a server that was not thought of: the status
            # says so, and it is asked again more and more rarely.
            self._metrics.loop_failures.inc()
            log.exception("poll failed", connection=claim.name)
            outcome, state = self._failed(claim, errors.Permanent(f"the poll met an unforeseen error: {error!r}"))
        latest = (*self._latest.pop(claim.uid, ()), *state.latest)[: connection.MOST_LATEST]
        state = replace(state, latest=latest)
        self._metrics.polls.labels(kind, outcome).inc()
        self._metrics.seconds.labels(kind).observe(self._monotonic() - begun)
        emptied = True
        if not self._items.counted.quiet(claim):
            emptied = await self._indexer.run(claim)
            await self._sweeper.forget(claim)
            state = await self._counted(claim, state)
        await self._assigned.finish(claim, state, self._next(claim, state, more, emptied, outcome, asked))

    async def _counted(self, claim: assignments.Claim, state: State) -> State:
        refused, why = await self._items.counted.refused(claim.uid)
        said = f"{refused} items are no tasks yet, because these are refused: {why}" if refused else ""
        state = replace(state, refused=said, counted=False, idle=False)
        try:
            return await self._items.counted.summed(claim, state, self._wall())
        except mongo.Unavailable as error:
            # Of many items they may take longer than a call may last: they are counted again later.
            log.info("items not counted", connection=claim.name, reason=error.message)
            return replace(state, counted_at=self._wall())

    def _failed(self, claim: assignments.Claim, error: errors.JervisError) -> tuple[str, State]:
        workspace = self._noted.get(claim.uid, claim.state.workspace)
        cause = error.cause if isinstance(error, port.Uncloned) else error
        cause.message = self._secrets.hidden(cause.message)
        if isinstance(error, port.Uncloned):
            workspace = self._uncloned(workspace, cause)
        error = cause
        if isinstance(error, port.Rejected):
            self._secrets.refused(claim.namespace, claim.spec.secret_ref)
        reason = next((said for kind, said in _REASONS.items() if isinstance(error, kind)), "PollFailed")
        remedy = f" {error.remedy}" if isinstance(error, errors.Permanent) and error.remedy else ""
        log.info("source not polled", connection=claim.name, reason=reason, cause=error.message)
        state = replace(
            claim.state,
            polled_at=self._wall(),
            failures=claim.state.failures + 1,
            reason=reason,
            message=f"{error.message}{remedy}"[:_MESSAGE_CHARS],
            rejected=isinstance(error, port.Rejected),
            workspace=workspace,
        )
        return reason, state

    def _uncloned(self, last: Workspace | None, error: errors.JervisError) -> Workspace:
        failures = (last.failures if last is not None else 0) + 1
        again = self._wall() + timedelta(seconds=CLONE[(failures - 1) % len(CLONE)])
        return Workspace(connection.WorkspaceState.CLONE_FAILED, failures, again, error.message[:_MESSAGE_CHARS])

    def _next(
        self, claim: assignments.Claim, state: State, more: bool, emptied: bool, outcome: str, asked: float
    ) -> datetime:
        """When it is polled next; `asked`: the seconds for which its source asked to be left alone."""
        now = self._wall()
        if outcome != SUCCEEDED and state.workspace is not None and state.workspace.retry_at is not None:
            return state.workspace.retry_at
        if more and emptied and not state.refused:
            return now  # behind the others that are due
        interval = connection.seconds(claim.spec.poll_interval)
        pause = interval * (1 + JITTER * (2 * self._chance.random() - 1))
        if outcome != SUCCEEDED:
            pause = max(min(pause, AGAIN.delay(state.failures)), min(asked, LONGEST_ASKED), 1.0)
        if not emptied and not asked:
            pause = min(pause, WINDOW_SECONDS)
        if outcome == SUCCEEDED and state.sweep is not None:
            pause = min(pause, max((state.sweep.due - now).total_seconds(), 1.0))
        return now + timedelta(seconds=pause)

    async def _sweep(self, claim: assignments.Claim, state: State) -> State:
        """Let what left the source leave; the state with the end of that."""
        at = claim

        async def poll() -> bool:
            nonlocal at
            more, at = await self._poll(at)
            return not more

        store = partial(self._store, claim, _owner(claim))
        ended = await self._sweeper.run(claim, await self.source(claim), poll, store)
        if ended is not None:
            self._items.counted.written(claim.uid, None)
            ended = replace(ended, message=self._secrets.hidden(ended.message))
        return replace(state, cursor=at.state.cursor, sweep=ended or state.sweep)

    async def source(self, claim: assignments.Claim) -> port.Source:
        """The source of a Connection, with its credentials. Raises `crds.errors.JervisError`."""
        stored = self._stored_here.get(claim.spec.type)
        if stored is not None:
            return stored(claim)
        clones = self._clones.get(claim.spec.type)
        if clones is not None:
            return clones(claim, *await self.access(claim))
        opens = self._opens.get(claim.spec.type)
        if opens is None:
            raise port.Misconfigured(f"{claim.spec.type.value} sources are not polled by this version.")
        return opens(claim.spec, *await self.access(claim))

    async def access(self, claim: assignments.Claim) -> tuple[Mapping[str, str], limits.Bucket]:
        """The credentials of a Connection, and the bucket that all requests to its source go through. Raises
        `crds.errors.JervisError`."""
        return await self._secrets.read(claim.namespace, claim.spec.secret_ref), self._bucket(claim)

    async def _poll(self, claim: assignments.Claim) -> tuple[bool, assignments.Claim]:
        """Store what is new; whether there may be more, and the claim with the cursor behind it."""
        counted = self._items.counted
        if await counted.backlog(claim) >= claim.spec.max_in_flight_tasks:
            return True, claim  # what is stored already has to become tasks first
        if not counted.quiet(claim) and (await counted.refused(claim.uid))[0] >= claim.spec.max_in_flight_tasks:
            return True, claim  # no task is accepted: the others stay where they are
        source = await self.source(claim)
        owner, count = _owner(claim), 0
        async with aclosing(source.batches(claim.cursor)) as batches:
            async for batch in batches:
                await self._store(claim, owner, batch, batch.cursor)
                state = replace(claim.state, cursor=batch.shown[:_SHOWN_CHARS])
                if batch.workspace is not None:
                    state = await self._note(claim, state, batch.workspace)
                claim, count = replace(claim, cursor=batch.cursor, state=state), count + 1
                if count >= MOST_BATCHES:
                    return True, claim
        return False, claim

    async def _read_again(self, claim: assignments.Claim) -> None:
        """Ask once more for what could not be read, where that is due."""
        failed = (claim.state.items or {}).get(counting.FAILED, 0)
        places = await self._items.unread(claim.uid, self._wall(), MOST_READ_AGAIN) if failed else []
        source = await self.source(claim) if places else None
        if isinstance(source, port.Fetching):
            async with aclosing(source.fetch(places)) as batches:
                async for batch in batches:
                    self._metrics.items.labels(claim.spec.type.value, "read_again").inc(len(batch.items))
                    await self._store(claim, _owner(claim), batch)

    async def _note(self, claim: assignments.Claim, state: State, now: connection.WorkspaceState) -> State:
        """The state with what the clone has come to, which may be long before the poll ends."""
        failures = state.workspace.failures if state.workspace is not None else 0
        cloning = now is connection.WorkspaceState.CLONING
        state = replace(state, workspace=Workspace(now, failures if cloning else 0))
        await self._assigned.note(claim, state)
        if state.workspace is not None:
            self._noted[claim.uid] = state.workspace
        return state

    async def _store(
        self, claim: assignments.Claim, owner: scope.Scope, batch: port.Batch, cursor: port.Cursor | None = None
    ) -> None:
        """Store a batch and then the cursor behind it, if that is kept."""
        kind = claim.spec.type.value
        failures = [replace(one, reason=self._secrets.hidden(one.reason)) for one in batch.failures]
        for request in batch.commits:
            told = request.model_copy(update={"access": claim.spec.access})
            failures += await self._direct_ingest.commit(claim, told)
        for tree in batch.trees:
            failures += await self._direct_ingest.structure(claim, tree)
        items = [_told(claim.spec, one) for one in batch.items]
        unknown = await self._items.unknown(claim.uid, items)
        known = [one for one in items if not any(one is new for new in unknown)]
        try:
            failures += await self._new(claim, owner, unknown)
            await self._items.found(claim.uid, known, claim.fence)
            bad = {failure.source_id for failure in failures}
            # What is editable and new was one before it was added.
            some = [*known, *[one for one in unknown if not one.editable and one.source_id not in bad]]
            await self._items.was_read(claim.uid, some)
            for failure in failures:
                await self._items.add_failure(claim.uid, owner, failure, self._wall(), claim.fence)
                self._metrics.items.labels(kind, "unusable").inc()
            await self._assigned.advance(claim, claim.cursor if cursor is None else cursor, self._wall())
        except assignments.Lost:
            await self._items.take_back(claim.uid, unknown, claim.fence)
            raise

    async def _new(
        self, claim: assignments.Claim, owner: scope.Scope, unknown: Sequence[port.Item]
    ) -> list[port.Failure]:
        """Store items with their contents; those that cannot be."""
        failures = list[port.Failure]()
        names = await self._items.names(owner, [one for one in unknown if not one.editable])
        ready: list[tuple[port.Item, dict[str, Any]]] = []
        try:
            for found in unknown:
                one = found
                if not found.editable and names.another(found):
                    # Two mails with one Message-ID are two mails, whatever mailboxes they came to; one may be forged.
                    one = replace(found, urn=f"{found.urn}#{found.version[:12]}")
                try:
                    content = await self._content(owner, one)
                except (kb.Rejected, UnicodeEncodeError) as error:
                    failures.append(_refused(one, error))
                    continue
                names.take(one)
                ready.append((one, content))
        finally:
            # Also when the knowledge base is away: what it has taken is not sent a second time.
            failures += await self._keep(claim, owner, ready)
        return failures

    async def _keep(
        self, claim: assignments.Claim, owner: scope.Scope, ready: Sequence[tuple[port.Item, Mapping[str, Any]]]
    ) -> list[port.Failure]:
        """Store items with their contents; those that MongoDB can never take."""
        failures = []
        try:
            await self._items.keep(claim.uid, owner, ready, self._wall(), claim.fence)
        except (mongo.Refused, UnicodeEncodeError):
            # One of them is the cause: the others pass.
            for one, content in ready:
                try:
                    await self._items.add(claim.uid, owner, one, content, self._wall(), claim.fence)
                except (mongo.Refused, UnicodeEncodeError) as error:
                    failures.append(_refused(one, error))
        kind, bad = claim.spec.type.value, {failure.source_id for failure in failures}
        stored = [one for one, _ in ready if one.source_id not in bad]
        self._metrics.items.labels(kind, "found").inc(len(stored))
        self._metrics.items.labels(kind, "partial").inc(sum(bool(one.left_out) for one in stored))
        arrived = [
            Arrival(one.title[:256], one.urn[:1024], self._wall(), tuple(said[:200] for said in one.left_out[:5]))
            for one in reversed(stored[-connection.MOST_LATEST :])
        ]
        self._latest[claim.uid] = [*arrived, *self._latest.get(claim.uid, ())][: connection.MOST_LATEST]
        return failures

    async def _content(self, owner: scope.Scope, one: port.Item) -> dict[str, Any]:
        """The part of the task's spec that holds the text, or names it where it is too large for an object."""
        raw = one.text.encode()
        content: dict[str, Any] = {"content": one.text}
        if len(raw) > pendingtask.CONTENT_BYTES:
            content = {"contentRef": (await self._kb.store(owner, raw)).model_dump(mode="json", by_alias=True)}
        files = []
        for file in one.files[: pendingtask.MOST_ATTACHMENTS]:
            reference = await self._kb.store(owner, file.body, file.media_type)
            files.append(
                {
                    "name": file.name,
                    "mediaType": file.media_type,
                    "contentRef": reference.model_dump(mode="json", by_alias=True),
                }
            )
        facts = {"facts": one.facts.wire()} if one.facts is not None else {}
        told = {"access": one.access.model_dump(mode="json", exclude_defaults=True)} if one.access is not None else {}
        return {**content, **({"attachments": files} if files else {}), **facts, **told}

    def _bucket(self, claim: assignments.Claim) -> limits.Bucket:
        wanted = claim.spec.rate_limit or connection.RateLimit()
        known = self._buckets.get(claim.uid)
        if known is None or known[0] != wanted:
            known = (wanted, limits.Bucket(wanted.requests_per_minute, wanted.burst))
            self._buckets[claim.uid] = known
        return known[1]


def _owner(claim: assignments.Claim) -> scope.Scope:
    return scope.Scope(client_id=claim.spec.client_id, project_id=claim.spec.project_id, group_id=claim.spec.group_id)


def _told(spec: connection.Spec, one: port.Item) -> port.Item:
    """With the access of the Connection where the source tells nothing. What a link leads to is not of the source."""
    linked = one.type is pendingtask.Type.LINK
    return one if spec.access is None or one.access is not None or linked else replace(one, access=spec.access)


def _refused(one: port.Item, error: Exception) -> port.Failure:
    said = error.message if isinstance(error, errors.Permanent) else str(error)
    by = "The knowledge base does not store it: " if isinstance(error, kb.Rejected) else ""
    return port.Failure(one.source_id, one.title.encode(errors="replace").decode(), f"{by}{said}", one.place)
