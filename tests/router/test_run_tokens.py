"""What the token of a run opens at the router: the models' API in its client's name, never above its ceiling."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.tokens import live_runs, runtoken
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from tests import waiting
from tests.router import process, wire

_EMBED = {"model": "m", "input": "x"}
_PERSON = "person-token-0123456789"
_SECRET = b"k" * 48
HOUR = timedelta(hours=1)
_STATUS = "/router/status"
_SAMPLE = 'jervis_router_requests_total{backend="raw",model="m:latest",priority="%s"}'


def _signed(
    *,
    client: str = "acme",
    mode: Mode = Mode.FOREGROUND,
    ceiling: Priority = Priority.P0,
    age: timedelta = timedelta(0),
    secret: bytes = _SECRET,
) -> str:
    run = runtoken.Run(
        task_uid="0b7f",
        namespace="team-a",
        attempt=2,
        scope=scope.Scope(client_id=client),
        mode=mode,
        ceiling=ceiling,
    )
    keys = runtoken.ring([secret])
    return runtoken.Signer(lambda: keys, lambda: datetime.now(UTC) - age).sign(run, HOUR)


def _keys(directory: Path) -> Path:
    folder = directory / "keys"
    folder.mkdir(parents=True)
    (folder / "signing").write_bytes(_SECRET)
    return folder


def _tokens(directory: Path) -> str:
    return process.tokens(directory, {"name": "person", "token": _PERSON})


class Site:
    """A router with keys of run tokens and the one backend behind it."""

    def __init__(self, router: process.Router, backend: wire.Backend, keys: Path) -> None:
        self.router = router
        self.backend = backend
        self.keys = keys

    async def embed(self, *headers: tuple[str, str]) -> wire.Message:
        return await self.router.post("/api/embed", _EMBED, headers)


@asynccontextmanager
async def _site(directory: Path, backend_spec: dict[str, Any] | None = None, **settings: str) -> AsyncIterator[Site]:
    keys = _keys(directory)
    given = {"run_token_keys": str(keys), **settings}
    async with process.before(directory, wire.answering(), spec=backend_spec, **given) as (router, backend):
        yield Site(router, backend, keys)


@pytest.mark.parametrize("required", ["true", "false"])
async def test_a_run_needs_its_token_alone_and_no_backend_sees_it(tmp_path: Path, required: str) -> None:
    async with _site(tmp_path, tokens_file=_tokens(tmp_path), token_required=required) as site:
        answers = [
            await site.embed(*wire.bearer(_signed())),
            await site.embed(("x-api-key", _signed())),
            await site.embed(*wire.bearer(_PERSON)),
        ]
        assert [answer.status for answer in answers] == [200] * 3
        assert [one.header("Authorization") or one.header("x-api-key") for one in site.backend.requests] == [None] * 3
        assert (await site.embed()).status == (401 if required == "true" else 200)


async def test_where_no_token_is_asked_for_a_run_s_is_verified_and_others_pass_as_before(tmp_path: Path) -> None:
    async with _site(tmp_path) as site:
        expired = await site.embed(*wire.bearer(_signed(age=2 * HOUR)))
        assert expired.status == 401
        answers = [
            await site.embed(*wire.bearer(_signed())),
            await site.embed(*wire.bearer("whatever-a-library-sends")),
            await site.embed(("Authorization", "Basic x")),
            await site.embed(),
        ]
        assert [answer.status for answer in answers] == [200] * 4
        shown = [one.header("Authorization") for one in site.backend.requests]
        assert shown == [None, "Bearer whatever-a-library-sends", "Basic x", None]


async def test_an_expired_or_foreign_one_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with _site(tmp_path, tokens_file=_tokens(tmp_path)) as site:
        for token, reason in (
            (_signed(age=2 * HOUR), "expired"),
            (_signed(secret=b"other" * 10), "key that is not accepted"),
            (_signed()[:-4] + "AAAA", "signature"),
        ):
            answer = await site.embed(*wire.bearer(token))
            assert (answer.status, answer.header("WWW-Authenticate")) == (401, 'Bearer realm="jervis"')
            message = answer.json()["error"]
            assert reason in message
            assert "mounted file" in message
            assert token not in message
        assert not site.backend.requests
        assert await site.router.metric('jervis_router_unauthorized_total{status="401"}') == 3


async def test_its_ceiling_stands_above_the_header(tmp_path: Path) -> None:
    async with _site(tmp_path) as site:
        background = wire.bearer(_signed(ceiling=Priority.P3, mode=Mode.BACKGROUND))
        for claim in ("0", "P1", "critical", "100"):
            assert (await site.embed(*background, ("X-Ollama-Priority", claim))).status == 200
        assert await site.router.metric(_SAMPLE % "P3") == 4
        assert (await site.embed(*wire.bearer(_signed()), ("X-Ollama-Priority", "0"))).status == 200
        assert await site.router.metric(_SAMPLE % "P0") == 1


async def test_a_background_run_cannot_pass_for_a_user(tmp_path: Path) -> None:
    async with _site(tmp_path) as site:
        urgent = ("X-Ollama-Priority", "0")
        background = wire.bearer(_signed(mode=Mode.BACKGROUND))
        for headers in ([], [("X-Jervis-Mode", "Foreground")], [("X-Jervis-Mode", "")]):
            assert (await site.embed(*background, urgent, *headers)).status == 200
        seen = await site.router.status()
        assert seen["lastP0"] is not None
        assert seen["lastUserP0"] is None
        assert (await site.embed(*wire.bearer(_signed()), urgent)).status == 200
        assert (await site.router.status())["lastUserP0"] is not None


async def test_it_counts_for_its_client(tmp_path: Path) -> None:
    async with _site(tmp_path, {"ceilings": [{"client": "acme", "priority": 3}]}) as site:
        for client in ("acme", "other"):
            headers = [*wire.bearer(_signed(client=client)), ("X-Ollama-Priority", "0")]
            assert (await site.embed(*headers)).status == 200
        assert [await site.router.metric(_SAMPLE % level) for level in ("P0", "P3")] == [1, 1]


@pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "open"])
async def test_it_administers_nothing(tmp_path: Path, tokens: bool) -> None:
    settings = {"tokens_file": _tokens(tmp_path)} if tokens else {}
    async with _site(tmp_path, None, **settings) as site:
        run = wire.bearer(_signed())
        backend = ("X-Ollama-Router-Backend", "raw")
        answers = [
            await site.router.post("/api/pull", {"model": "new"}, [*run, backend]),
            await site.router.get(_STATUS, run),
            await site.router.get("/router/explain?model=m", run),
        ]
        assert [answer.status for answer in answers] == [403] * 3
        assert "docs/tokens.md" in answers[1].json()["error"]
        assert (await site.router.get("/api/tags", run)).status == 200
        assert not site.backend.requests


async def test_it_reserves_for_its_run_alone_and_keeps_no_model_from_others(tmp_path: Path) -> None:
    async with _site(tmp_path, tokens_file=_tokens(tmp_path)) as site:
        run, person = wire.bearer(_signed()), wire.bearer(_PERSON)

        async def ask(path: str, who: list[tuple[str, str]], **body: Any) -> wire.Message:
            return await site.router.post(f"/router/{path}", {"owner": "o", **body}, who)

        alone = await ask("announce", run)
        assert alone.status == 409, "the only backend serves all other models as well"
        assert "no other backend" in alone.json()["error"]
        held = await ask("announce", person)
        assert held.status == 200
        assert (await ask("release", run, leaseId=held.json()["leaseId"])).status == 409, "it is another owner's"
        assert (await ask("release", person)).json()["released"]
        assert (await ask("announce", wire.bearer(_signed(ceiling=Priority.P1)))).status == 403


async def test_a_key_is_rotated_while_the_router_runs(tmp_path: Path) -> None:
    new = b"n" * 48
    async with _site(tmp_path, tokens_file=_tokens(tmp_path)) as site:
        assert (await site.embed(*wire.bearer(_signed(secret=new)))).status == 401
        (site.keys / "next").write_bytes(new)

        async def status() -> int:
            return (await site.embed(*wire.bearer(_signed(secret=new)))).status

        assert await waiting.eventually(status, good=lambda code: code == 200) == 200
        assert (await site.embed(*wire.bearer(_signed()))).status == 200
        os.replace(site.keys / "next", site.keys / "signing")

        async def former() -> int:
            return (await site.embed(*wire.bearer(_signed()))).status

        assert await waiting.eventually(former, good=lambda code: code == 401) == 401
        assert await status() == 200


async def test_keys_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "signing").write_text("short")
    router = process.start(tmp_path, [], run_token_keys=str(folder))
    assert await router.ended() == 2
    assert "signing" in router.text()
    assert "32" in router.text()


async def test_a_run_that_is_over_calls_no_model_and_before_the_operator_spoke_none_does(tmp_path: Path) -> None:
    keys, live = runtoken.ring([_SECRET]), {"0b7f": 2}

    def say(message: wire.Message) -> bytes:
        return wire.plain(live_runs.sign(live_runs.Live(as_of=datetime.now(UTC), runs=live), keys).encode())

    async def status(site: Site, wanted: int) -> wire.Message:
        """Asks until the answer has this status: the router hears of a change within seconds."""
        return await waiting.eventually(
            lambda: site.embed(*wire.bearer(_signed(age=HOUR / 2))), good=lambda answer: answer.status == wanted
        )

    async with wire.backend(wire.replying(say)) as operator:
        unheard = {"live_runs_url": "http://127.0.0.1:9"}
        async with _site(tmp_path / "unheard", None, **unheard) as site:
            answer = await site.embed(*wire.bearer(_signed()))
            assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (503, "TokenUnchecked")
            assert answer.header("Retry-After") is not None
            assert (await site.embed()).status == 200, "without a token as before"
        async with _site(tmp_path / "heard", live_runs_url=operator.url) as site:
            await status(site, 200)
            live["0b7f"] = 3
            answer = await status(site, 401)
            assert "run 2 of task 0b7f is over" in answer.json()["error"]
            assert site.backend.requests
