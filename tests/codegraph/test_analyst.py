"""The worker of questions: it ends, or is ended, and the next question has another one."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codegraph import api
from codegraph.answer import worker as questions
from codegraph.branch import analyst
from codegraph.extract import packed_facts
from codegraph.resolve import configuration
from codegraph.resolve.calls.edges import Calls, Edge
from crds import scope
from kb.service.http import problems
from tests import waiting
from tests.codegraph import projects

_PARENT = """
import asyncio, os, sys
from codegraph.branch import analyst

async def main():
    print(await analyst.Analyst().run(os.getpid), flush=True)
    sys.stdin.read()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
async def worker() -> AsyncIterator[analyst.Analyst]:
    made = analyst.Analyst()
    yield made
    made.close()


def state(pid: int) -> str:
    """The state of a process as the kernel shows it, '' where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def test_a_worker_that_was_killed_between_two_questions_is_replaced(worker: analyst.Analyst) -> None:
    first = await worker.run(os.getpid)
    os.kill(first, signal.SIGKILL)
    assert await worker.run(os.getpid) != first
    await waiting.eventually(lambda: not state(first), "the worker is gone")


async def test_questions_beside_one_that_kills_the_worker_are_answered(worker: analyst.Analyst) -> None:
    await worker.run(os.getpid)
    found = await asyncio.gather(
        *(worker.run(os._exit, 1) if number == 1 else worker.run(abs, -number) for number in range(6)),
        return_exceptions=True,
    )
    assert isinstance(found[1], analyst.Overrun)
    assert [one for number, one in enumerate(found) if number != 1] == [0, 2, 3, 4, 5]
    assert await worker.run(abs, -7) == 7


async def test_a_worker_that_is_stuck_is_ended_and_leaves_no_zombie() -> None:
    worker = analyst.Analyst(seconds=waiting.PATIENCE)
    first = await worker.run(os.getpid)
    worker._seconds = 0.2
    with pytest.raises(analyst.Overrun):
        await worker.run(signal.pause)
    await waiting.eventually(lambda: not state(first), "the worker is gone")
    worker._seconds = waiting.PATIENCE
    second = await worker.run(os.getpid)
    worker.close()
    await waiting.eventually(lambda: not state(second), "the worker is gone")


async def test_work_that_needs_more_memory_than_there_is_is_refused_and_other_work_goes_on() -> None:
    worker = analyst.Analyst(memory=600 << 20)
    first = await worker.run(os.getpid)
    with pytest.raises(analyst.MemoryExceeded, match="more memory than the 600 MiB") as refused:
        await worker.run(bytes, 1 << 30)
    assert "JERVIS_KB_CODE_MEMORY_BYTES" in (refused.value.remedy or "")
    assert problems.code(refused.value) == "too_large"
    await waiting.eventually(lambda: not state(first), "the worker is gone")
    assert len(await worker.run(bytes, 1 << 20)) == 1 << 20
    assert await worker.run(resource.getrlimit, resource.RLIMIT_AS) == (600 << 20, 600 << 20)
    worker.close()


async def test_branches_are_held_as_long_as_there_is_memory_for_them(worker: analyst.Analyst) -> None:
    facts = {f"m{number}.py": f"def work{number}():\n    return {number}\n" for number in range(50)}
    packed = projects.packed(facts)
    worker._memory = 300 << 20
    # As large as a tenth of what branches may have.
    known = api.Coverage(repository="r", branch="main", commit="a", current=True).model_dump_json(by_alias=True)
    asked = api.Callers(symbol="work1", scope=scope.Scope(client_id="acme")).model_dump_json(by_alias=True)
    padding = packed_facts.pack(configuration.File("go.mod", bytes((15 << 20) // questions.GROWTH)))
    for number in range(14):
        what = (f"branch {number}", "main", "shop", ((*packed, padding), b"", ()), "callers", asked, known)
        assert await worker.run(questions.answer, *what) is not None
    held = await worker.run(questions.held)
    assert held == tuple(f"branch {number}" for number in range(14 - len(held), 14))
    assert 8 <= len(held) <= 10
    assert await worker.run(questions.answer, "branch 0", "main", "shop", None, "callers", asked, known) is None


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
async def test_a_worker_ends_with_a_service_that_is_killed(kind: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(_PARENT)
    with subprocess.Popen(  # noqa: ASYNC220 -- a process of its own, with the interpreter of the tests
        [sys.executable, str(tmp_path / "parent.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert state(pid)
        parent.send_signal(kind)
        parent.wait()
    await waiting.eventually(lambda: not state(pid), "the worker is gone")


RUST = "pub fn total() -> u32 { rounded(1) }\n\nfn rounded(value: u32) -> u32 { value }\n"
CALLED = "def rounded(): pass\n\n\ndef total():\n    rounded()\n"


def asked(kind: str, packed: list[bytes], symbol: str) -> tuple[list[str], list[str]]:
    """(lines of calls, languages whose calls are not known) of an answer about a branch with these facts."""
    question = api.Callers(scope=scope.Scope(client_id="acme", project_id="shop"), symbol=symbol)
    known = api.Coverage(repository="acme/shop", branch="main", commit="a" * 40, current=True)
    state = f"{kind} {symbol} {hash(tuple(packed))}"
    answered = questions.answer(
        state, "main", "shop", (packed, b"", ()), kind, question.model_dump_json(by_alias=True),
        known.model_dump_json(by_alias=True),
    )  # fmt: skip
    assert answered is not None
    reply = api.CallsReply.model_validate_json(answered[0])
    return [f"{one.caller.path}:{one.line}" for one in reply.calls], reply.coverage.calls_unknown


def test_answers_name_the_languages_of_which_no_call_is_known() -> None:
    whole = projects.packed({"src/lib.rs": RUST, "shop.py": CALLED, "tool.rb": "def run\nend\n", "empty.c": "\n"})
    assert asked("callers", whole, "src/lib.rs:rounded") == ([], ["ruby", "rust"])
    assert asked("callers", whole, "shop.py:rounded") == (["shop.py:5"], ["ruby", "rust"])
    assert asked("callees", projects.packed({"shop.py": CALLED}), "total") == (["shop.py:5"], [])


def test_calls_that_joern_knows_are_no_unknown_ones() -> None:
    project = projects.project({"a.c": "void f() { g(); }\nvoid g() {}\n", "b.rb": "def run\nend\n"})
    assert questions.calls_unknown(project) == ["c", "ruby"]
    edge = Edge("a.c", "f", "a.c", "g", 1, "joern", 0.9)
    assert questions.calls_unknown(dataclasses.replace(project, calls=Calls((edge,)))) == ["ruby"]
