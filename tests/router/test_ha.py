"""Which of several routers decides: never two, never none for long. Virtual time, a Lease in memory; real processes."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import ha, kube
from tests.router import process, wire

_TERMS = ha.Terms("router")
_TOKEN = "alice-alice-alice"


class Memory:
    """An apiserver that keeps one Lease and can be cut off for somebody."""

    def __init__(self) -> None:
        self.kept: kube.Lease | None = None
        self.version = 0
        self.cut: set[str] = set()

    def seen_by(self, name: str) -> Leases:
        """As one router reaches it."""
        return Leases(self, name)


class Leases:
    """One router's way to the Lease."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._name = name

    def lease(self, name: str) -> kube.Lease | None:
        """Read."""
        if self._name in self._memory.cut:
            raise kube.Trouble("no way")
        return self._memory.kept

    def hold(self, name: str, before: kube.Lease | None, holder: str, seconds: int) -> kube.Lease:
        """Write, if nobody was faster."""
        memory = self._memory
        if self._name in memory.cut:
            raise kube.Trouble("no way")
        if before != memory.kept:
            raise kube.Lost("too late")
        memory.version += 1
        transitions = 0 if before is None else before.transitions + (before.holder != holder)
        memory.kept = kube.Lease(holder, str(memory.version), float(seconds), transitions, str(memory.version))
        return memory.kept


class Clock:
    """Monotonic seconds, moved by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _candidate(memory: Memory, name: str, clock: Clock, told: list[tuple[str, bool]]) -> ha.Candidate:
    return ha.Candidate(
        memory.seen_by(name), _TERMS, name, now=clock, changed=lambda active: told.append((name, active))
    )


async def test_the_first_is_active_and_a_standby_follows_within_five_seconds_of_its_death() -> None:
    memory, clock, told = Memory(), Clock(), list[tuple[str, bool]]()
    one, two = (_candidate(memory, name, clock, told) for name in ("one", "two"))
    for _ in range(20):
        await one.step()
        await two.step()
        assert (one.active, two.active) == (True, False)
        clock.now += _TERMS.every
    died = clock.now
    while not two.active:
        clock.now += _TERMS.every
        await two.step()
    assert clock.now - died <= 5.0
    assert not one.active
    assert told == [("one", True), ("two", True)]  # a dead one says nothing


async def test_who_leaves_hands_over_at_once() -> None:
    memory, clock, told = Memory(), Clock(), list[tuple[str, bool]]()
    one, two = (_candidate(memory, name, clock, told) for name in ("one", "two"))
    await one.step()
    await two.step()
    await one.leave()
    await two.step()
    assert told == [("one", True), ("one", False), ("two", True)]
    assert memory.kept is not None
    assert memory.kept.transitions == 2


async def test_who_cannot_renew_steps_down_before_anybody_else_may_begin() -> None:
    memory, clock, told = Memory(), Clock(), list[tuple[str, bool]]()
    one, two = (_candidate(memory, name, clock, told) for name in ("one", "two"))
    await one.step()
    memory.cut.add("one")
    while not two.active:
        clock.now += 0.25
        await one.step()
        await two.step()
        assert not (one.active and two.active)
    assert told == [("one", True), ("one", False), ("two", True)]
    memory.cut.clear()
    await one.step()
    assert (one.active, two.active) == (False, True)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["step", "cut", "mend", "leave"]), st.floats(0.0, 2.0)),
        max_size=80,
    )
)
def test_never_two_at_once(steps: list[tuple[str, str, float]]) -> None:
    async def history() -> None:
        memory, clock, told = Memory(), Clock(), list[tuple[str, bool]]()
        routers = {name: _candidate(memory, name, clock, told) for name in "abc"}
        gone = set()
        for name, what, seconds in steps:
            clock.now += seconds
            if name in gone:
                continue
            if what == "cut":
                memory.cut.add(name)
            elif what == "mend":
                memory.cut.discard(name)
            elif what == "leave":
                gone.add(name)
                await routers[name].leave()
            await routers[name].step() if name not in gone else None
            assert sum(router.active for router in routers.values()) <= 1

    asyncio.run(history())


@pytest.mark.apiserver
async def test_two_processes_one_decides_and_the_other_takes_over(tmp_path: Path, kubeconfig: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.plain(b"{}"))
        return True

    raw = wire.post("/api/embed", {"model": "m", "input": "x"})
    async with wire.backend(script) as backend:
        specs = [process.spec("raw", backend.url)]
        settings_ = {"kubeconfig": str(kubeconfig), "namespace": "default", "lease": "router-test"}
        async with process.running(tmp_path, specs, **settings_) as one:

            async def fate(router: process.Router) -> int:
                return (await wire.ask(router.port, raw)).status

            assert await process.eventually(lambda: fate(one), lambda code: code == 200) == 200
            async with process.running(tmp_path, specs, **settings_) as two:
                refused = await wire.ask(two.port, raw)
                assert (refused.status, refused.header("Retry-After")) == (503, "1")
                assert "standing by" in refused.json()["error"]
                green = [(await wire.ask(r.port, wire.request("GET", "/activez"))).status for r in (one, two)]
                assert green == [200, 503]
                # A standby has looked at its backends all the while.
                assert (await two.status())["backends"][0]["healthy"]
                one.process.kill()
                assert await process.eventually(lambda: fate(two), lambda code: code == 200) == 200
                two.terminate()
                assert await two.ended() == 0


@pytest.mark.apiserver
async def test_whoever_waits_at_a_router_that_leaves_is_served_by_the_next(tmp_path: Path, kubeconfig: Path) -> None:
    gate = asyncio.Event()

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.chunked_head() + wire.chunk(b'{"done":false}\n'))
        await gate.wait()
        writer.write(wire.chunk(b'{"done":true}\n') + wire.chunk(b""))
        return True

    def ask(router: process.Router, number: int) -> asyncio.Task[wire.Message]:
        headers = [("X-Ollama-Priority", "P1"), ("Authorization", f"Bearer {_TOKEN}"), ("X-Request-Id", "same")]
        raw = wire.post("/api/generate", {"model": "m", "prompt": f"{number}"}, headers)
        return asyncio.create_task(wire.ask(router.port, raw))

    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps([{"name": "alice", "token": _TOKEN, "ceiling": "P2"}]))
    given = {"kubeconfig": str(kubeconfig), "namespace": "default", "lease": "router-leaves", "address": "127.0.0.1"}
    async with wire.backend(script) as backend:
        specs = [process.spec("raw", backend.url, numParallel=1)]

        def router() -> AbstractAsyncContextManager[process.Router]:
            return process.running(tmp_path, specs, port=str(_free_port()), tokens_file=str(tokens), **given)

        async with router() as one, router() as two:
            decides, follows = await _sorted(one, two)
            begun = ask(decides, 0)
            await _until_waiting(decides, 0, in_flight=1)
            waiting = [ask(decides, number) for number in (1, 2, 3)]
            await _until_waiting(decides, 3, in_flight=1)
            decides.terminate()
            # The one that runs keeps its slot to its end; the others wait in the next router's line.
            await _until_waiting(follows, 2, in_flight=1)
            gate.set()
            answers = await asyncio.gather(begun, *waiting)
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


async def _sorted(*routers: process.Router) -> list[process.Router]:
    """The one that decides, then the other."""

    async def codes() -> list[int]:
        asked = [wire.ask(router.port, wire.request("GET", "/activez")) for router in routers]
        return [answer.status for answer in await asyncio.gather(*asked)]

    found = await process.eventually(codes, lambda seen: sorted(seen) == [200, 503])
    return [router for _, router in sorted(zip(found, routers, strict=True), key=lambda pair: pair[0])]


async def _until_waiting(router: process.Router, waiting: int, *, in_flight: int) -> None:
    async def seen() -> tuple[int, int]:
        status = await router.status_with(_TOKEN)
        return status["queue"]["waiting"], sum(b["inFlight"] for b in status["backends"])

    await process.eventually(seen, lambda found: found == (waiting, in_flight))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
