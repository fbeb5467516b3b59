"""What every queue does. A test class inherits this and gives the fixture `queue`: 50 jobs, 40 of one client, of 5,000
bytes and 4,000."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import strategies as st

from crds import scope
from crds.priority import Priority
from kb import errors, visibility
from kb.queue import job
from tests.kb import clock as clocks
from tests.kb import scopes


async def put(
    queue: job.Queue,
    name: str,
    urgency: Priority = Priority.P3,
    owner: scope.Scope = scopes.SHOP,
    request: str = "{}",
    action: job.Action = job.Action.EXTRACT,
) -> job.Job:
    return await queue.put(name, owner, f"u:{name}", "email", action, urgency, request)


async def next_of(queue: job.Queue, clock: clocks.Clock) -> tuple[job.Job, str]:
    """The job that a worker takes next, and its request."""
    found = await queue.next(clock(), skip=())
    assert found is not None
    return found


async def kept(queue: job.Queue, name: str) -> tuple[job.Job, str]:
    """A job that is there, and its request."""
    found = await queue.find(name)
    assert found is not None
    return found


async def order(queue: job.Queue, clock: clocks.Clock) -> list[str]:
    """Everything, as a worker would take it."""
    taken: list[str] = []
    while (found := await queue.next(clock(), skip=taken)) is not None:
        taken.append(found[0].document_id)
    for name in taken:
        await queue.release(name)
    return taken


CLIENTS = ("a", "b", "c", "d")
# What happens to a queue: a job of one of the clients is put or dropped, or the next one is done or fails for now.
HAPPENS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "many", "drop", "done", "done", "done", "fails")),
        st.sampled_from(CLIENTS),
        st.sampled_from((Priority.P2, Priority.P3)),
    ),
    max_size=40,
)


class QueueContract:
    """The meaning of `kb.queue.job.Queue`."""

    async def test_priority_then_age(self, queue: job.Queue, clock: clocks.Clock) -> None:
        for name, urgency in (("a3", Priority.P3), ("b1", Priority.P1), ("c3", Priority.P3), ("d1", Priority.P1)):
            await put(queue, name, urgency)
        assert await order(queue, clock) == ["b1", "d1", "a3", "c3"]

    async def test_a_place_comes_before_every_priority(self, queue: job.Queue, clock: clocks.Clock) -> None:
        for name in "abcd":
            await put(queue, name, Priority.P0 if name == "a" else Priority.P3)
        await queue.move(scopes.SHOP, "d", 1)
        await queue.move(scopes.SHOP, "c", 1)
        assert await order(queue, clock) == ["c", "d", "a", "b"]
        moved = await queue.move(scopes.SHOP, "c", 2)
        assert moved is not None
        assert moved.position == 2
        # d stood at 2 and is pushed back; b goes in front of both.
        await queue.move(scopes.SHOP, "b", 1)
        assert await order(queue, clock) == ["b", "c", "d", "a"]

    async def test_only_who_sees_a_job_moves_it(self, queue: job.Queue) -> None:
        await put(queue, "a")
        assert await queue.move(scopes.OTHER, "a", 1) is None
        assert await queue.move(scopes.BLOG, "a", 1) is None
        assert await queue.move(scopes.SHOP, "nothing", 1) is None

    async def test_a_newer_request_takes_the_place_of_the_older(self, queue: job.Queue, clock: clocks.Clock) -> None:
        old = await put(queue, "a", Priority.P2, request="old")
        await put(queue, "b", Priority.P2)
        await queue.postpone("a", old.revision, "busy", clock() + timedelta(seconds=60))
        new = await put(queue, "a", Priority.P3, request="new")
        assert (new.seq, new.urgency, new.attempts, new.not_before) == (old.seq, Priority.P2, 0, None)
        assert new.revision != old.revision
        await queue.drop("a", revision=old.revision)
        assert await order(queue, clock) == ["a", "b"]
        await queue.drop("a", revision=new.revision)
        assert await order(queue, clock) == ["b"]

    async def test_a_repair_never_replaces_an_extraction(self, queue: job.Queue) -> None:
        await put(queue, "a", request="everything")
        kept = await put(queue, "a", Priority.P1, action=job.Action.REBUILD_GRAPH, request="")
        assert (kept.action, kept.urgency) == (job.Action.EXTRACT, Priority.P3)
        await put(queue, "b", action=job.Action.REBUILD_GRAPH, request="")
        replaced = await put(queue, "b", request="everything")
        assert replaced.action is job.Action.EXTRACT

    async def test_postponed_until_it_is_due(self, queue: job.Queue, clock: clocks.Clock) -> None:
        made = await put(queue, "a")
        await queue.postpone("a", made.revision, "router is away", clock() + timedelta(seconds=5))
        assert await queue.next(clock(), skip=()) is None
        clock.advance(seconds=5)
        due, _ = await next_of(queue, clock)
        assert (due.attempts, due.reason) == (1, "router is away")

    async def test_full_for_one_and_full_for_all(self, queue: job.Queue) -> None:
        for number in range(40):
            await put(queue, f"a{number}")
        with pytest.raises(errors.Crowded, match="acme") as caught:
            await put(queue, "one more")
        assert caught.value.retry_after
        await put(queue, "a0", request="who waits already may say it anew")
        await put(queue, "repair", action=job.Action.REBUILD_GRAPH)
        for number in range(9):
            await put(queue, f"b{number}", owner=scopes.OTHER)
        with pytest.raises(errors.Crowded, match="50 documents"):
            await put(queue, "last", owner=scopes.GLOBAL)
        assert await queue.depth() == {Priority.P3: 50}

    async def test_the_same_request_put_again_is_another_revision(self, queue: job.Queue) -> None:
        """A process that has begun to repair a document must not take a later repair of it for done."""
        first = await put(queue, "a", action=job.Action.REBUILD_GRAPH, request="")
        again = await put(queue, "a", action=job.Action.REBUILD_GRAPH, request="")
        await queue.drop("a", revision=first.revision)
        assert (await kept(queue, "a"))[0] == again

    async def test_what_was_indexed_is_so_until_it_is_put_again(self, queue: job.Queue) -> None:
        made = await put(queue, "a", request="old")
        await queue.mark_indexed("a", "another revision")
        assert not (await kept(queue, "a"))[0].indexed
        await queue.mark_indexed("a", made.revision)
        assert (await kept(queue, "a"))[0].indexed
        assert not (await put(queue, "a", request="new")).indexed

    async def test_the_table_of_scopes(self, queue: job.Queue) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        for number, owner in enumerate(owners):
            await put(queue, f"d{number}", owner=owner)
        for viewer in owners:
            expected = [f"d{number}" for number, owner in enumerate(owners) if visibility.sees(viewer, owner)]
            jobs, total = await queue.listed(viewer, limit=100)
            assert ([one.document_id for one in jobs], total) == (expected, len(expected))
            jobs, total = await queue.listed(viewer, limit=1)
            assert ([one.document_id for one in jobs], total) == (expected[:1], len(expected))

    async def test_the_jobs_of_a_project_move_with_it_and_keep_their_places(self, queue: job.Queue) -> None:
        owners = (scopes.SHOP, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL, scopes.ACME, scopes.GLOBAL)
        for number, owner in enumerate((*owners, scopes.make("other", "shop", "retail"))):
            await put(queue, f"d{number}", Priority.P2, owner, request=f'{{"of": "d{number}"}}')
        await queue.move(scopes.SHOP, "d1", 1)
        before = await queue.among([f"d{number}" for number in range(8)])
        for moved in (scopes.make("acme", "shop", "wholesale"), scopes.make("acme", "shop")):
            assert sorted(await queue.regroup(moved)) == ["d0", "d1"]
            assert await queue.regroup(moved) == []
            assert await queue.among(before) == {
                name: replace(one, owner=moved) if name in ("d0", "d1") else one for name, one in before.items()
            }
            _, seen = await queue.listed(scopes.make("acme", "neighbour", "wholesale"), limit=10)
            assert seen == (4 if moved.group_id else 2)
        assert (await kept(queue, "d0"))[1] == '{"of": "d0"}'

    async def test_an_erased_scope_has_no_jobs(self, queue: job.Queue, clock: clocks.Clock) -> None:
        for name, owner in {"a": scopes.ACME, "b": scopes.SHOP, "c": scopes.BLOG, "d": scopes.OTHER}.items():
            await put(queue, name, owner=owner)
        assert await queue.erase(scopes.SHOP) == 1
        assert await queue.erase(scopes.ACME) == 2
        assert await order(queue, clock) == ["d"]

    async def test_what_a_request_mentions(self, queue: job.Queue) -> None:
        await put(queue, "a", request='{"contentRef": {"key": "a.b(c"}}')
        assert await queue.mentions("a.b(c")
        assert not await queue.mentions("a-b(c")

    async def test_the_jobs_of_some_documents(self, queue: job.Queue) -> None:
        made = await put(queue, "a")
        await put(queue, "b")
        assert await queue.among(["a", "c"]) == {"a": made}

    async def test_bytes_are_bounded_for_one_and_for_all(self, queue: job.Queue) -> None:
        await put(queue, "a0", request="x" * 2500)
        with pytest.raises(errors.Crowded, match="2500 bytes of requests of client 'acme'") as caught:
            await put(queue, "a1", request="x" * 1501)
        assert "JERVIS_KB_QUEUE_CLIENT_BYTES" in (caught.value.remedy or "")
        await put(queue, "a1", request="x" * 1500)
        with pytest.raises(errors.Crowded, match="acme"):
            await put(queue, "a1", request="x" * 1501)  # in its own place it may not grow either
        await put(queue, "a1", request="x" * 1400)
        await put(queue, "repair", action=job.Action.REBUILD_GRAPH, request="")
        with pytest.raises(errors.Crowded, match="3900 bytes of requests wait") as caught:
            await put(queue, "b0", owner=scopes.OTHER, request="é" * 600)
        assert "JERVIS_KB_QUEUE_BYTES" in (caught.value.remedy or "")
        await queue.drop("a0")
        await put(queue, "b0", owner=scopes.OTHER, request="é" * 600)

    async def test_no_list_holds_the_requests(self, queue: job.Queue) -> None:
        size, extract = 400_000, job.Action.EXTRACT
        for number in range(10):
            name = f"d{number}"
            await queue.put(name, scopes.SHOP, name, "email", extract, Priority.P3, "x" * size, bounded=False)
        tracemalloc.start()
        assert len((await queue.listed(scopes.SHOP, limit=100))[0]) == 10
        assert len(await queue.among([f"d{number}" for number in range(10)])) == 10
        assert await queue.move(scopes.SHOP, "d9", 1) is not None
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < size

    async def test_one_request_has_room_however_large_it_is(self, queue: job.Queue) -> None:
        """Otherwise it would be refused for ever; how large it may be is the bound of a body."""
        await put(queue, "a0", request="x" * 9000)
        await put(queue, "a0", request="x" * 9001)
        with pytest.raises(errors.Crowded):
            await put(queue, "a1", request="x")

    async def test_what_is_put_back_has_room(self, queue: job.Queue) -> None:
        await put(queue, "a0", request="x" * 3000)
        await put(queue, "a0", request="x")
        await put(queue, "a1", request="x" * 3000)
        mine = ("a0", scopes.SHOP, "u:a0", "email", job.Action.EXTRACT, Priority.P3)
        await queue.put(*mine, "x" * 3000, bounded=False)
        assert (await queue.depth())[Priority.P3] == 2

    async def test_a_client_that_comes_back_is_behind_those_that_wait(
        self, queue: job.Queue, clock: clocks.Clock
    ) -> None:
        a, b, c, _ = map(scopes.make, CLIENTS)
        await put(queue, "first", owner=a)
        assert await order(queue, clock) == ["first"]
        await queue.drop("first")
        for name, owner in (("b0", b), ("b1", b), ("c0", c), ("again", a)):
            await put(queue, name, owner=owner)
        assert await order(queue, clock) == ["b0", "c0", "again", "b1"]

    async def check_turns(
        self, queue: job.Queue, clock: clocks.Clock, happens: list[tuple[str, str, Priority]]
    ) -> None:
        """While a client has a job that is due, no other one of its priority is served twice; so of N clients each is
        served within N jobs, whatever the others have put and will put. Each class gives it to hypothesis itself."""
        for client in CLIENTS:
            await queue.erase(scopes.make(client))
        names = iter(range(1000))
        waits: dict[tuple[str, Priority], dict[str, str]] = defaultdict(dict)  # name -> revision
        later: dict[str, tuple[str, Priority, str]] = {}
        served: dict[tuple[str, Priority], list[str]] = defaultdict(list)
        for what, client, urgency in happens:
            key = (client, urgency)
            if what in ("put", "many"):
                for _ in range(5 if what == "many" else 1):
                    if sum(map(len, waits.values())) + len(later) < 35:
                        name = f"d{next(names)}"
                        made = await put(queue, name, urgency, scopes.make(client))
                        if not waits[key]:
                            served[key] = []
                        waits[key][name] = made.revision
            elif what == "drop" and waits[key]:
                name, _ = waits[key].popitem()
                await queue.drop(name)
            elif what in ("done", "fails"):
                found = await queue.next(clock(), skip=())
                assert (found is None) == (not any(waits.values()))
                if found is None:
                    continue
                one = found[0]
                mine = (one.owner.client_id, one.urgency)
                most = min(urgency for (_, urgency), jobs in waits.items() if jobs)
                assert one.urgency == most
                assert one.document_id == min(waits[mine], key=lambda name: int(name[1:])), "the oldest of its client"
                for other, urgency in waits:
                    if urgency == one.urgency and waits[other, urgency] and other != one.owner.client_id:
                        assert one.owner.client_id not in served[other, urgency]
                        served[other, urgency].append(one.owner.client_id)
                served[mine] = []
                del waits[mine][one.document_id]
                if what == "done":
                    await queue.drop(one.document_id)
                else:
                    await queue.postpone(one.document_id, one.revision, "away", clock() + timedelta(days=1))
                    later[one.document_id] = (*mine, one.revision)

    async def test_a_backlog_does_not_keep_the_next_client_waiting(self, queue: job.Queue, clock: clocks.Clock) -> None:
        for number in range(30):
            await put(queue, f"a{number}")
        assert (await next_of(queue, clock))[0].document_id == "a0"
        await queue.drop("a0")
        await put(queue, "b", owner=scopes.OTHER)
        await put(queue, "c", owner=scopes.make("third"))
        assert (await order(queue, clock))[:5] == ["a1", "b", "c", "a2", "a3"]

    async def test_how_many_come_before_a_job(self, queue: job.Queue, clock: clocks.Clock) -> None:
        """Of every client, and not only of those that the viewer sees."""
        for number in range(6):
            await put(queue, f"a{number}", owner=scopes.BLOG if number == 2 else scopes.SHOP)
        for number in range(3):
            await put(queue, f"b{number}", owner=scopes.OTHER)
        await put(queue, "g", owner=scopes.GLOBAL)
        await put(queue, "urgent", Priority.P1, owner=scopes.OTHER)
        await put(queue, "placed", owner=scopes.OTHER)
        await queue.move(scopes.OTHER, "placed", 1)
        jobs, total = await queue.listed(scopes.SHOP, limit=100)
        assert total == 6
        ahead = {one.document_id: one.ahead for one in jobs}
        few, total = await queue.listed(scopes.SHOP, limit=2)
        assert (few, total) == (jobs[:2], 6)
        # What is worked on is the first, and keeps nothing waiting.
        few, _ = await queue.listed(scopes.SHOP, limit=2, running=["a1", "placed"])
        assert [(one.document_id, one.ahead) for one in few] == [("a1", 0), ("a0", 1)]
        expected = await order(queue, clock)
        assert ahead == {name: expected.index(name) for name in ("a0", "a1", "a3", "a4", "a5", "g")}
        assert [one.document_id for one in jobs] == [name for name in expected if name in ahead]
