"""A service asks the operator which runs there are: it goes on whatever the operator answers, or while it is away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from aiohttp import web

from clients import liveruns
from contracts.tokens import live_runs as wire
from contracts.tokens import runtoken
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from tests import httpserver, ports, waiting

_SECRET = b"k" * 48
KEYS = runtoken.ring([_SECRET])
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_AGO = NOW - timedelta(hours=1)


class Operator:
    """Answers `said` in turn; the last one again and again. `ports` are those of its callers."""

    def __init__(self, *said: web.Response | str) -> None:
        self.said, self.asked = list(said), 0
        self.ports: list[int] = []
        self._more = asyncio.Condition()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        said = self.said[min(self.asked, len(self.said) - 1)]
        assert request.transport is not None
        self.ports.append(request.transport.get_extra_info("peername")[1])
        async with self._more:
            self.asked += 1
            self._more.notify_all()
        return said if isinstance(said, web.Response) else web.Response(text=said)

    async def asked_for(self, times: int) -> None:
        """Until it was asked so often, and the answer was taken."""
        async with self._more:
            await self._more.wait_for(lambda: self.asked > times - 1)
        await asyncio.sleep(0.05)


def served(operator: Operator, port: int = 0) -> contextlib.AbstractAsyncContextManager[str]:
    application = web.Application()
    application.router.add_get(wire.PATH, operator.answer)
    return httpserver.serving(application, port=port)


def listed(**runs: int) -> str:
    return wire.sign(wire.Live(as_of=NOW, runs=runs), KEYS)


def token(uid: str) -> str:
    run = runtoken.Run(
        task_uid=uid,
        namespace="team-a",
        attempt=1,
        scope=scope.Scope(client_id="acme"),
        mode=Mode.BACKGROUND,
        ceiling=Priority.P3,
    )
    return runtoken.Signer(lambda: KEYS, lambda: _AGO).sign(run, timedelta(hours=5))


@pytest.fixture(name="keys")
def _keys(tmp_path: Path) -> str:
    (tmp_path / "signing").write_bytes(_SECRET)
    return str(tmp_path)


def opened(keys: str, url: str) -> liveruns.Runs:
    return liveruns.opened(keys, url, runtoken.ROUTER, monotonic=lambda: 0.0, wall=lambda: NOW)


async def test_what_the_operator_says_counts(keys: str) -> None:
    operator = Operator(listed(a=1))
    async with served(operator) as url:
        runs = opened(keys, f"{url}/")
        with pytest.raises(wire.Unheard):
            runs.verifier.verify(token("a"))
        assert runs.follow is not None
        following = asyncio.create_task(runs.follow())
        await waiting.done(operator.asked_for(1))
        await asyncio.sleep(0.2)
        assert operator.asked == 1, "and not again at once"
        following.cancel()
    assert runs.verifier.verify(token("a")).task_uid == "a"
    with pytest.raises(runtoken.Ended):
        runs.verifier.verify(token("b"))


def verifier(known: wire.Known) -> runtoken.Verifier:
    return runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.ROUTER, known.check)


class Taking(wire.Known):
    """With what it took, in order."""

    def __init__(self) -> None:
        super().__init__(lambda: KEYS, lambda: 0.0, lambda: NOW)
        self.taken: list[wire.Live] = []

    def hear(self, token: str) -> None:
        super().hear(token)
        self.taken.append(wire.parse(token, KEYS))


async def test_it_goes_on_after_whatever_was_answered_and_takes_none_of_it() -> None:
    known = Taking()
    wrong = Operator(listed(b=1))
    async with served(wrong) as elsewhere:
        moved = web.Response(status=302, headers={"Location": f"{elsewhere}{wire.PATH}"})
        encoded = web.Response(body=b"not gzip", headers={"Content-Encoding": "gzip"})
        # Too large by its length alone: it is a list that the operator has signed.
        huge = wire.sign(wire.Live(as_of=NOW, runs=dict.fromkeys(map(str, range(700_000)), 1) | {"b": 1}), KEYS)
        other = wire.sign(wire.Live(as_of=NOW, runs={"b": 1}), runtoken.ring([b"o" * 48]))
        assert len(huge) > wire.MOST_BYTES
        operator = Operator(
            web.Response(status=503, text=listed(b=1)), moved, encoded, huge, web.Response(body=b"\xff\xfe"), other,
            listed(a=1),
        )  # fmt: skip
        async with served(operator) as url:
            following = asyncio.create_task(liveruns.follow(known, url, 0.0))
            await waiting.done(operator.asked_for(8))
            following.cancel()
    assert wrong.asked == 0
    assert [dict(one.runs) for one in known.taken[:1]] == [{"a": 1}]
    assert verifier(known).verify(token("a")).task_uid == "a"
    with pytest.raises(runtoken.Ended):
        verifier(known).verify(token("b"))


async def test_another_replica_is_asked_at_once_where_one_does_not_know() -> None:
    """Each question has a connection of its own, which a Service leads to any of them."""
    known = wire.Known(lambda: KEYS, lambda: 0.0, lambda: NOW)
    operator = Operator(web.Response(status=503), web.Response(status=503), web.Response(status=503), listed(a=1))
    async with served(operator) as url:
        following = asyncio.create_task(liveruns.follow(known, url, 3600.0))
        await waiting.done(operator.asked_for(4))
        following.cancel()
    assert verifier(known).verify(token("a")).task_uid == "a"
    assert len(set(operator.ports)) == 4


async def test_an_operator_that_is_away_comes_back_and_that_is_logged_once() -> None:
    known = wire.Known(lambda: KEYS, lambda: 0.0, lambda: NOW)
    operator, port = Operator(listed(a=1)), ports.free()
    with structlog.testing.capture_logs() as lines:
        following = asyncio.create_task(liveruns.follow(known, f"http://127.0.0.1:{port}", 0.01))
        await asyncio.sleep(0.3)
        async with served(operator, port):
            await waiting.done(operator.asked_for(2))
        following.cancel()
    assert verifier(known).verify(token("a")).task_uid == "a"
    assert lines == [], "a moment is no news"


async def test_what_lasts_is_logged_once() -> None:
    known = wire.Known(lambda: KEYS, lambda: 0.0, lambda: NOW)
    operator = Operator(*[web.Response(status=503) for _ in range(40)], listed(a=1))
    clock = itertools.count(0.0, 4.0)
    with structlog.testing.capture_logs() as lines:
        async with served(operator) as url:
            following = asyncio.create_task(liveruns.follow(known, url, 0.0, monotonic=lambda: next(clock)))
            await waiting.done(operator.asked_for(42))
            following.cancel()
    assert [(one["event"], one["log_level"]) for one in lines] == [
        ("live runs unknown", "warning"), ("live runs known", "info"),
    ]  # fmt: skip


def test_without_an_operator_a_token_is_good_until_it_expires(keys: str) -> None:
    runs = opened(keys, "")
    assert runs.follow is None
    assert runs.verifier.verify(token("a")).task_uid == "a"
