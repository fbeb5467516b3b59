"""Start, settings and end of the process."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests import waiting
from tests.fakes.ollama import __main__, process
from tests.simulator.conftest import Starter, client


def test_the_banner_says_what_it_is(shared: process.Fake) -> None:
    assert "SIMULATOR of Ollama. This is NOT a language model" in shared.log.read_text()


async def test_sigterm_lets_running_requests_finish(start: Starter) -> None:
    fake = start(tokens_per_second=60)
    body = {"model": "small:1b", "prompt": "word " * 30, "stream": False}
    async with client(fake) as http:
        running = asyncio.create_task(http.post("/api/generate", json=body))
        await waiting.eventually(lambda: fake.count(path="/api/generate") == 1)
        ended = asyncio.create_task(asyncio.to_thread(fake.terminate))
        assert (await running).json()["done_reason"] == "stop"
        assert await ended == 0
        with pytest.raises(httpx.ConnectError):
            await http.get("/")


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--vram", "much"], {}, "vram: Value error, 'much' is not a size"),
        ([], {"FAKE_OLLAMA_NUM_PARALLEL": "0"}, "num_parallel: Input should be greater than or equal to 1"),
        (["--models", "gone.yaml"], {}, "cannot start: models: there is no file gone.yaml"),
        (["--script", "gone.yaml"], {}, "cannot start: script: there is no file gone.yaml"),
        (["--keep-alive", "soon"], {}, "cannot start: keep_alive: "),
    ],
)
def test_wrong_settings_name_themselves(
    arguments: list[str],
    environment: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert __main__.main(["--port", "0", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_start_that_fails_shows_why() -> None:
    with pytest.raises(AssertionError, match="num_parallel"), process.running(num_parallel=0):
        pass


def test_killing_resets_what_runs(start: Starter) -> None:
    fake = start(faults=[{"match": {"path": "/api/generate"}, "stall": {"afterBytes": 1}}])
    fake.kill()
    with pytest.raises(httpx.ConnectError):
        fake.state()
