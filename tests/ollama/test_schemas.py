"""Every schema that can be sent is taken by Ollama's own binary: as `format`, and as parameters in `tools`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ollama import gguf, twins
from tests.schemas import foreign, walking

PROGRAM = os.environ.get("JERVIS_TEST_OLLAMA", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="JERVIS_TEST_OLLAMA names no program: see make test-ollama")

_MODEL = "tiny:latest"
_OPTIONS = {"seed": 7, "temperature": 0, "num_predict": 1, "num_thread": 1, "num_ctx": 8192}


@dataclass
class _Server:
    """A server with one tiny random model."""

    http: httpx.Client
    log: Path

    def problem(self, **request: Any) -> str:
        """What is wrong with the answer to the request; empty where nothing is."""
        body = {"model": _MODEL, "messages": [{"role": "user", "content": "kůň"}], "stream": False}
        answer = self.http.post("/api/chat", json=body | {"options": _OPTIONS} | request)
        return "" if answer.is_success and answer.json()["done"] else f"{answer.status_code} {answer.text[:200]}"

    def starts(self) -> int:
        """How many runners it has started."""
        return self.log.read_text(errors="replace").count('msg="starting runner"')


@contextlib.contextmanager
def _serving(home: Path) -> Iterator[_Server]:
    settings = {"NUM_PARALLEL": "1", "NO_CLOUD": "1", "KEEP_ALIVE": "-1"}
    with twins.program(PROGRAM, home, settings) as (url, _):
        twins.make(url, _MODEL, gguf.tiny(1, context=8192), template=twins.TOOLED)
        with httpx.Client(base_url=url, timeout=120, trust_env=False, verify=False) as http:
            yield _Server(http, home / "log")


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    with _serving(tmp_path_factory.mktemp("ollama")) as server:
        assert server.problem() == ""
        yield server


def _problems(server: _Server, requests: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    before, problems, count = server.starts(), dict[str, str](), 0
    for name, request in requests:
        count += 1
        if problem := server.problem(**request):
            problems[name] = problem
        # One runner took all of them.
        assert server.starts() == before, f"{name} ended the runner"
    assert count >= 70
    return problems


def test_each_schema_is_a_format(server: _Server) -> None:
    assert _problems(server, ((sample.name, {"format": sample.schema}) for sample in walking.formats())) == {}


def test_each_tool_is_offered(server: _Server) -> None:
    assert _problems(server, ((sample.name, {"tools": [_tool(sample)]}) for sample in walking.tools())) == {}


def _tool(sample: walking.Sample) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "a", "description": "b", "parameters": sample.schema}}


def test_a_bound_ends_the_runner(tmp_path: Path) -> None:
    """The reference of the tests above."""
    with _serving(tmp_path) as server:
        assert server.problem() == ""
        before = server.starts()
        assert server.problem(format=foreign.BOUND).startswith("500 ")
        assert server.problem() == ""
        assert server.starts() == before + 1
        # Of a tool's schema it refuses what it cannot read.
        assert server.problem(tools=[_tool(walking.Sample("wrong", foreign.LISTED["wrong"]))]).startswith("400 ")
