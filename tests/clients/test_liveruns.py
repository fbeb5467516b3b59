"""A service asks the operator which runs there are: it goes on whatever the operator answers, or while it is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from clients import liveruns
from crds import liveruns as wire
from crds import runtoken, scope
from crds.pendingtask import Mode
from crds.priority import Priority

_SECRET = b"k" * 48
KEYS = runtoken.ring([_SECRET])
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_AGO = NOW - timedelta(hours=1)


class Operator:
    """Answers `said` in turn; the last one again and again."""

    def __init__(self, *said: web.Response | str) -> None:
        self.said, self.asked = list(said), 0
        self.answered = asyncio.Event()

    async def answer(self, _: web.Request) -> web.StreamResponse:
        said = self.said[min(self.asked, len(self.said) - 1)]
        self.asked += 1
        if self.asked > len(self.said):
            self.answered.set()
        return said if isinstance(said, web.Response) else web.Response(text=said)


@contextlib.asynccontextmanager
async def served(operator: Operator) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_get(wire.PATH, operator.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


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
        await operator.answered.wait()
        following.cancel()
    assert runs.verifier.verify(token("a")).task_uid == "a"
    with pytest.raises(runtoken.Ended):
        runs.verifier.verify(token("b"))


async def test_it_goes_on_after_whatever_was_answered(keys: str) -> None:
    moved = web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})
    encoded = web.Response(body=b"not gzip", headers={"Content-Encoding": "gzip"})
    huge = web.Response(body=b"x" * (wire.MOST_BYTES + 1))
    other = wire.sign(wire.Live(as_of=NOW, runs={"b": 1}), runtoken.ring([b"o" * 48]))
    operator = Operator(
        web.Response(status=503), moved, encoded, huge, web.Response(body=b"\xff\xfe"), other, listed(a=1)
    )
    known = wire.Known(lambda: KEYS, lambda: 0.0)
    async with served(operator) as url:
        following = asyncio.create_task(liveruns.follow(known, url, 0.0))
        await operator.answered.wait()
        following.cancel()
    verifier = runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.ROUTER, known.check)
    assert verifier.verify(token("a")).task_uid == "a"
    with pytest.raises(runtoken.Ended):
        verifier.verify(token("b"))


async def test_an_operator_that_is_away_comes_back(keys: str) -> None:
    operator, known = Operator(listed(a=1)), wire.Known(lambda: KEYS, lambda: 0.0)
    async with served(operator) as url:
        pass
    following = asyncio.create_task(liveruns.follow(known, url, 0.0))
    await asyncio.sleep(0.05)
    assert not following.done()
    following.cancel()
    verifier = runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.ROUTER, known.check)
    with pytest.raises(wire.Unheard):
        verifier.verify(token("a"))


def test_without_an_operator_a_token_is_good_until_it_expires(keys: str) -> None:
    runs = opened(keys, "")
    assert runs.follow is None
    assert runs.verifier.verify(token("a")).task_uid == "a"
