"""The queue: in a file of one process, and in MongoDB for several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds import scope
from crds.priority import Priority
from kb import errors, mongo, visibility
from kb.queue import job, sqlite
from kb.queue import mongo as shared
from tests import thorough
from tests.kb import clock as clocks
from tests.kb import scopes
from tests.kb.queue import contract

BOUNDS: dict[str, Any] = {"limit": 50, "per_client": 40, "max_bytes": 5000, "client_bytes": 4000}

PROPERTY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class TestFile(contract.QueueContract):
    @pytest.fixture
    async def queue(self, tmp_path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Queue]:
        opened = sqlite.Queue(tmp_path / "queue.sqlite", clock, **BOUNDS)
        await opened.prepare()
        yield opened
        await opened.close()

    @PROPERTY
    @given(happens=contract.HAPPENS)
    async def test_clients_take_turns(
        self, queue: sqlite.Queue, clock: clocks.Clock, happens: list[tuple[str, str, Priority]]
    ) -> None:
        await self.check_turns(queue, clock, happens)


@pytest.mark.services
class TestMongo(contract.QueueContract):
    @pytest.fixture
    def queue(self, database: mongo.Database, clock: clocks.Clock) -> shared.Queue:
        return shared.Queue(database, "a", clock, **BOUNDS)

    @pytest.fixture
    def other(self, database: mongo.Database, clock: clocks.Clock) -> shared.Queue:
        """The queue as another process has it."""
        return shared.Queue(database, "b", clock, **BOUNDS)

    @PROPERTY
    @given(happens=contract.HAPPENS)
    async def test_clients_take_turns(
        self, queue: shared.Queue, clock: clocks.Clock, happens: list[tuple[str, str, Priority]]
    ) -> None:
        await self.check_turns(queue, clock, happens)

    async def test_a_job_is_given_to_one_process(self, queue: shared.Queue, other: shared.Queue) -> None:
        for number in range(20):
            await contract.put(queue, f"d{number}")

        async def take(mine: shared.Queue) -> list[str]:
            taken: list[str] = []
            while (found := await mine.next(clocks.Clock()(), skip=taken)) is not None:
                taken.append(found[0].document_id)
            return taken

        first, second = await asyncio.gather(take(queue), take(other))
        assert sorted(first + second) == sorted(f"d{number}" for number in range(20))

    async def test_a_claim_lasts_while_its_process_is_heard_of(
        self, queue: shared.Queue, other: shared.Queue, clock: clocks.Clock
    ) -> None:
        await contract.put(queue, "d")
        assert await queue.next(clock(), skip=()) is not None
        for _ in range(3):
            clock.advance(seconds=job.CLAIM.total_seconds() - 1)
            assert await other.next(clock(), skip=()) is None
            [waits], _ = await other.listed(scopes.SHOP, limit=5)
            assert waits.claimed
            await queue.hold(["d"], clock())
        clock.advance(seconds=job.CLAIM.total_seconds())
        await contract.next_of(other, clock)
        # It is the other process's now.
        await queue.hold(["d"], clock() + timedelta(days=1))
        await queue.release("d")
        assert await queue.next(clock(), skip=()) is None
        await other.release("d")
        assert await queue.next(clock(), skip=()) is not None

    async def test_a_job_that_is_put_again_is_free(
        self, queue: shared.Queue, other: shared.Queue, clock: clocks.Clock
    ) -> None:
        await contract.put(queue, "d", request="old")
        await queue.next(clock(), skip=())
        await contract.put(queue, "d", request="new")
        assert (await contract.next_of(other, clock))[1] == "new"

    async def test_an_older_owner_neither_replaces_nor_drops(self, queue: shared.Queue) -> None:
        async def put(request: str, fence: int) -> job.Job:
            name, kind = ("d", scopes.SHOP, "u:1", "email"), job.Action.EXTRACT
            return await queue.put(*name, kind, Priority.P3, request, fence=fence)

        await put("old", 7)
        newer = await put("new", 8)
        with pytest.raises(errors.Outrun):
            await put("old", 7)
        await queue.drop("d", fence=7)
        # A repair is asked for without the document's turn.
        assert await contract.put(queue, "d", action=job.Action.REBUILD_GRAPH, request="") == newer
        assert await queue.find("d") == (newer, "new")
        await queue.drop("d", fence=8)
        assert await queue.find("d") is None


async def test_it_is_there_after_a_restart(tmp_path: Path, clock: clocks.Clock) -> None:
    first = sqlite.Queue(tmp_path / "queue.sqlite", clock, limit=50, per_client=40)
    await contract.put(first, "a", request='{"is": "kept"}')
    # No close: a process that is killed closes nothing.
    second = sqlite.Queue(tmp_path / "queue.sqlite", clock, limit=50, per_client=40)
    assert (await contract.kept(second, "a"))[1] == '{"is": "kept"}'
    await first.close()
    await second.close()


@settings(
    max_examples=thorough.examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(viewer=scopes.ANY, owners=st.lists(scopes.ANY, max_size=8))
async def test_nobody_sees_what_is_not_theirs(
    tmp_path_factory: pytest.TempPathFactory, viewer: scope.Scope, owners: list[scope.Scope]
) -> None:
    opened = sqlite.Queue(tmp_path_factory.mktemp("q") / "q.sqlite", clocks.Clock(), limit=50, per_client=50)
    await opened.prepare()
    for number, owner in enumerate(owners):
        await contract.put(opened, f"d{number}", owner=owner)
    jobs, total = await opened.listed(viewer, limit=100)
    expected = [f"d{number}" for number, owner in enumerate(owners) if visibility.sees(viewer, owner)]
    # Clients take turns, so that only those of one client stand in the order in which they came.
    assert sorted(one.document_id for one in jobs) == expected
    assert total == len(expected)
    await opened.close()
