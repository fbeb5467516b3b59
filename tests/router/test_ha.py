"""Which of several routers decides, as the router hears of it. `tests/kube` says who may hold a Lease, and until when.

A Lease in memory, threads of its own for each router, the hour in the test's hands; and real processes.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import kube
from crds import errors
from kube import lease
from router import ha
from tests import ports, waiting
from tests.kube.memory import Store, Way
from tests.operator import unwatched
from tests.operator.proxy import Proxy
from tests.router import process, wire

_TERMS = lease.Terms(duration=3.0, renew_every=0.01, margin=0.5)
_TOKEN = "alice-alice-alice"


class Clock:
    """Monotonic seconds, moved by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Routers:
    """Candidates for one Lease and what each was told, in order."""

    def __init__(self) -> None:
        self.store, self.clock, self.told = Store(), Clock(), list[tuple[str, bool]]()
        self.ways: dict[str, Way] = {}
        self.answers: list[str | errors.Operational] = []
        self._heard = asyncio.Event()

    @asynccontextmanager
    async def running(self, name: str, terms: lease.Terms = _TERMS) -> AsyncIterator[ha.Candidate]:
        """One more."""
        way = self.ways[name] = Way(self.store)
        candidate = ha.Candidate(
            way,
            ha.identity(name, f"{name}:1"),
            holder=self.holder,
            handover=30.0,
            terms=terms,
            now=self.clock,
        )
        candidate.listen(lambda active: self._hear(name, active))
        task = asyncio.create_task(candidate.run())
        try:
            yield candidate
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await candidate.leave()

    @asynccontextmanager
    async def leading(self, name: str, terms: lease.Terms = _TERMS) -> AsyncIterator[ha.Candidate]:
        """The first one, which has been told that it leads."""
        async with self.running(name, terms) as candidate:
            await self.until((name, True))
            yield candidate

    async def holder(self) -> str:
        """Who has the Lease, or what the test says of it."""
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, errors.Operational):
                raise answer
            return answer
        return "" if self.store.record is None else self.store.record.holder

    async def until(self, *told: tuple[str, bool]) -> None:
        """Everything told so far is exactly this."""
        async with asyncio.timeout(waiting.PATIENCE):
            while len(self.told) < len(told):
                self._heard.clear()
                await self._heard.wait()
        assert self.told == list(told)

    async def last(self, change: tuple[str, bool]) -> None:
        """Wait until this is the latest change."""
        async with asyncio.timeout(waiting.PATIENCE):
            while self.told[-1:] != [change]:
                self._heard.clear()
                await self._heard.wait()

    async def renewals(self, count: int) -> None:
        """So many more writes of the Lease."""
        before = self.store.version
        assert await waiting.eventually(self._version, good=lambda now: now >= before + count)

    async def looks(self, name: str) -> None:
        """A standby has seen the Lease as it is."""
        for _ in ("one that may have begun before", "one that is over"):
            seen = asyncio.Event()
            hear = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, seen.set)
            self.ways[name].meanwhile["read", "back"] = hear
            async with asyncio.timeout(waiting.PATIENCE):
                await seen.wait()

    async def _version(self) -> int:
        return self.store.version

    def _hear(self, name: str, active: bool) -> None:
        self.told.append((name, active))
        self._heard.set()


async def test_who_leaves_hands_over_at_once() -> None:
    routers = Routers()
    async with routers.leading("one") as one, routers.running("two") as two:
        await one.leave()
        assert not one.active
        await routers.until(("one", True), ("one", False), ("two", True))
        assert two.active
        assert await one.successor() == "two:1"
        assert routers.store.record is not None
        assert routers.store.record.transitions == 2
        with pytest.raises(lease.Fenced):
            one.check()


async def test_who_cannot_renew_steps_down_and_competes_again() -> None:
    routers = Routers()
    async with routers.leading("one") as one, routers.running("two") as two:
        routers.ways["one"].cut = True
        routers.clock.now += _TERMS.duration - _TERMS.margin
        assert not one.active
        await routers.until(("one", True), ("one", False))
        await routers.looks("two")
        routers.clock.now += _TERMS.duration
        await routers.until(("one", True), ("one", False), ("two", True))
        assert await one.successor() == "two:1"
        routers.ways["one"].cut = False
        await two.leave()
        await routers.until(("one", True), ("one", False), ("two", True), ("two", False), ("one", True))


async def test_who_waits_for_the_apiserver_is_told_when_its_time_is_over() -> None:
    """The thread is in a call that does not come back; the deadline is the event loop's own."""
    routers, back = Routers(), threading.Event()
    terms = lease.Terms(duration=0.6, renew_every=0.01, margin=0.1)
    routers.clock = asyncio.get_running_loop().time  # type: ignore[assignment]  # real seconds
    async with routers.leading("one", terms) as one:
        there = threading.Event()

        def stuck() -> None:
            there.set()
            back.wait(waiting.PATIENCE)

        routers.ways["one"].meanwhile["write", "there"] = stuck
        assert await asyncio.to_thread(there.wait, 300)
        # A thread that got no turn for half a second has lost the Lease before, and won it again.
        await routers.last(("one", False))
        assert not one.active
        back.set()
        await routers.last(("one", True))


async def test_a_renewal_that_was_sent_in_time_and_answered_late_is_noticed() -> None:
    """The holder's time was over in between; the Lease was never lost, and so there is nothing to win."""
    routers, told = Routers(), threading.Event()
    terms = lease.Terms(duration=0.6, renew_every=0.01, margin=0.1)
    async with routers.leading("one", terms) as one:
        meanwhile = routers.ways["one"].meanwhile

        def in_time() -> None:
            meanwhile["write", "there"] = late
            routers.clock.now += 0.4

        def late() -> None:
            routers.clock.now += 0.2
            told.wait(waiting.PATIENCE)

        meanwhile["write", "there"] = in_time
        await routers.until(("one", True), ("one", False))
        told.set()
        await routers.until(("one", True), ("one", False), ("one", True))
        assert (one.active, one.epoch) == (True, 1)


async def test_listeners_are_told_before_a_request_that_comes_first_learns_that_it_decides() -> None:
    """A scheduler that has no backends yet would refuse it."""
    routers, tries, gate, renews = Routers(), threading.Event(), threading.Event(), threading.Event()
    async with routers.running("one") as one:
        meanwhile = routers.ways["one"].meanwhile

        def wins() -> None:
            tries.set()
            gate.wait(waiting.PATIENCE)
            meanwhile["write", "there"] = renews.set

        meanwhile["write", "there"] = wins
        assert await asyncio.to_thread(tries.wait, 300)
        gate.set()
        # The event loop has no turn: the thread wins the Lease, and is about to renew it.
        assert renews.wait(waiting.PATIENCE)
        assert (one.epoch, routers.told) == (1, [])
        assert one.active
        assert routers.told == [("one", True)]
        await routers.renewals(2)
        await routers.until(("one", True))


async def test_renewals_and_the_handover_do_not_wait_for_the_executor() -> None:
    routers, busy = Routers(), threading.Event()
    loop = asyncio.get_running_loop()
    executor = ThreadPoolExecutor(1)
    loop.set_default_executor(executor)
    stuck = loop.run_in_executor(None, busy.wait)
    try:
        async with routers.leading("one") as one:
            await routers.renewals(5)
            await one.leave()
            assert await routers.holder() == ""
            assert routers.ways["one"].closed == 1
    finally:
        busy.set()
        await stuck


async def test_a_successor_is_looked_for_once_and_until_the_apiserver_says() -> None:
    routers = Routers()
    async with routers.leading("one") as one:
        await one.leave()
        routers.answers = [errors.Operational("away"), "", "one@one:1", "two@"]
        assert {*await asyncio.gather(one.successor(), one.successor())} == {""}, "it has no address"
        assert routers.answers == []
        routers.answers = ["three@three:1"]
        assert await one.successor() == "three:1"


def test_a_takeover_takes_no_longer_than_the_documentation_promises() -> None:
    assert ha.TERMS.duration + 2 * ha.TERMS.renew_every <= 5.0


@pytest.mark.apiserver
async def test_two_processes_one_decides_and_the_other_takes_over(tmp_path: Path, kubeconfig: Path) -> None:
    raw = wire.post("/api/embed", {"model": "m", "input": "x"})
    async with wire.backend(wire.answering()) as backend:
        specs = [process.spec("raw", backend.url)]
        settings_ = {"kubeconfig": str(kubeconfig), "namespace": "default", "lease": "router-test"}
        async with process.running(tmp_path, specs, **settings_) as one:

            async def fate(router: process.Router) -> int:
                return (await router.send(raw)).status

            assert await waiting.eventually(lambda: fate(one), good=lambda code: code == 200) == 200
            async with process.running(tmp_path, specs, **settings_) as two:

                async def refused() -> tuple[list[process.Router], wire.Message, list[int]]:
                    # On a busy machine the first one may have lost the Lease meanwhile, and may lose it at any time.
                    roles = await _sorted(one, two)
                    answer = await roles[1].send(raw)
                    asked = [await r.get("/activez") for r in roles]
                    return roles, answer, [each.status for each in asked]

                (decides, stands_by), answer, _ = await waiting.eventually(
                    refused, good=lambda seen: (seen[1].status, seen[2]) == (503, [200, 503])
                )
                assert answer.header("Retry-After") == "1"
                assert "standing by" in answer.json()["error"]
                # A standby has looked at its backends all the while.
                await stands_by.until(lambda s: s["backends"][0]["healthy"])
                decides.process.kill()
                assert await waiting.eventually(lambda: fate(stands_by), good=lambda code: code == 200) == 200
                stands_by.terminate()
                assert await stands_by.ended() == 0


@pytest.mark.apiserver
async def test_whoever_waits_at_a_router_that_leaves_is_served_by_the_next(tmp_path: Path, kubeconfig: Path) -> None:
    gate = asyncio.Event()

    def ask(router: process.Router, number: int) -> asyncio.Task[wire.Message]:
        headers = [("X-Ollama-Priority", "P1"), *wire.bearer(_TOKEN), ("X-Request-Id", "same")]
        raw = wire.post("/api/generate", {"model": "m", "prompt": f"{number}"}, headers)
        return asyncio.create_task(router.send(raw))

    tokens = process.tokens(tmp_path, {"name": "alice", "token": _TOKEN, "ceiling": "P2"})
    given = {"kubeconfig": str(kubeconfig), "namespace": "default", "lease": "router-leaves", "address": "127.0.0.1"}
    async with wire.backend(wire.pausing(gate)) as backend:
        specs = [process.spec("raw", backend.url, numParallel=1)]

        def router() -> AbstractAsyncContextManager[process.Router]:
            return process.running(tmp_path, specs, port=str(ports.free()), tokens_file=tokens, **given)

        async with router() as one, router() as two:
            decides, follows = await _sorted(one, two)
            begun = ask(decides, 0)
            seen = asyncio.create_task(_until_waiting(decides, 0, in_flight=1))
            while (await asyncio.wait((begun, seen), return_when=asyncio.FIRST_COMPLETED))[0] != {seen}:
                # On a busy machine it has lost the Lease in between; no other refusal is right.
                seen.cancel()
                assert "standing by" in (await begun).json()["error"]
                decides, follows = await _sorted(one, two)
                begun = ask(decides, 0)
                seen = asyncio.create_task(_until_waiting(decides, 0, in_flight=1))
            waiters = [ask(decides, number) for number in (1, 2, 3)]
            await _until_waiting(decides, 3, in_flight=1)
            decides.terminate()
            # The one that runs keeps its slot to its end; the others wait in the next router's line.
            await _until_waiting(follows, 2, in_flight=1)
            gate.set()
            answers = await asyncio.gather(begun, *waiters)
            assert [(a.clean, a.status, a.body.count(b"\n")) for a in answers] == [(True, 200, 2)] * 4
            served = [a.header("X-Ollama-Router-Backend") for a in answers]
            assert served == ["raw", *["(next router)"] * 3]
            assert [a.header("X-Request-Id") for a in answers] == ["same"] * 4
            assert sorted(r.json()["prompt"] for r in backend.requests) == ["0", "1", "2", "3"]
            assert all(r.header("Authorization") is None for r in backend.requests)
            # The level that the token's ceiling left is the one that counts there, too.
            clamped = 'jervis_router_requests_total{backend="raw",model="m:latest",priority="P2"}'
            assert await follows.metric(clamped) == 3
            assert await decides.ended() == 0


@pytest.mark.apiserver
async def test_whoever_waits_while_the_apiserver_is_away_is_served_when_the_same_router_decides_again(
    tmp_path: Path, kubeconfig: Path
) -> None:
    gate = asyncio.Event()

    at = urlsplit(kube.configuration(str(kubeconfig)).host)
    with Proxy(at.hostname or "", at.port or 443) as proxy:
        given = {"kubeconfig": str(unwatched.behind(proxy.address, kubeconfig, tmp_path)), "namespace": "default"}
        async with process.before(
            tmp_path, wire.gated(gate), spec={"numParallel": 1}, lease="router-away", **given
        ) as (router, _):

            async def active() -> int:
                return (await router.get("/activez")).status

            def ask() -> asyncio.Task[wire.Message]:
                return asyncio.create_task(router.post("/api/embed", {"model": "m", "input": "x"}))

            assert await waiting.eventually(active, good=lambda code: code == 200)
            begun = ask()
            await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
            turned = ask()
            await router.until(lambda s: s["queue"]["waiting"] == 1)
            proxy.cut()
            assert await waiting.eventually(active, good=lambda code: code == 503)
            await router.until(lambda s: s["queue"]["waiting"] == 0)
            assert not turned.done(), "it has left the queue and waits for a router that decides"
            proxy.repair()
            assert await waiting.eventually(active, good=lambda code: code == 200)
            gate.set()
            answers = await asyncio.gather(begun, turned)
            assert [(a.status, a.header("X-Ollama-Router-Backend")) for a in answers] == [(200, "raw")] * 2


async def _sorted(*routers: process.Router) -> list[process.Router]:
    """The one that decides, then the other."""

    async def codes() -> list[int]:
        asked = [router.get("/activez") for router in routers]
        return [answer.status for answer in await asyncio.gather(*asked)]

    found = await waiting.eventually(codes, good=lambda seen: sorted(seen) == [200, 503])
    return [router for _, router in sorted(zip(found, routers, strict=True), key=lambda pair: pair[0])]


async def _until_waiting(router: process.Router, queued: int, *, in_flight: int) -> None:
    async def seen() -> tuple[int, int]:
        status = await router.status_with(_TOKEN)
        return status["queue"]["waiting"], sum(b["inFlight"] for b in status["backends"])

    await waiting.eventually(seen, good=lambda found: found == (queued, in_flight))
