"""What tests start a process with is read by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import variables
from tests.faults import operators
from tests.kb.service import program
from tests.nursery import children
from tests.operator.process import Operator
from tests.orchestrator_job.job import Job
from tests.router import process as router
from tests.sources.process import Sources


def operator(folder: Path) -> None:
    Operator(folder / "log", never, NAMESPACE="jervis", NO_SUCH_NAME=1)


def never(*_: object) -> children.Process:
    raise AssertionError("it is started")


def job(folder: Path) -> None:
    Job(folder, "mongodb://127.0.0.1:1", "none", "http://127.0.0.1:1", "http://127.0.0.1:1").start(
        JERVIS_NO_SUCH_NAME="1"
    )


STARTS: dict[str, Callable[[Path], object]] = {
    "sources": lambda folder: Sources(folder / "log", NO_SUCH_NAME=1),
    "operator": operator,
    "router": lambda _: router.environment([], {"no_such_name": "1"}),
    "kb": lambda folder: program.launch(folder / "log", {"JERVIS_KB_NO_SUCH_NAME": "1"}),
    "job": job,
}


@pytest.mark.parametrize("process", STARTS)
def test_a_variable_that_no_process_reads_is_refused(process: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no setting of the process: JERVIS_[A-Z_]*NO_SUCH_NAME"):
        STARTS[process](tmp_path)


async def test_so_it_is_for_the_operators_of_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ready() -> None:
        pass

    monkeypatch.setattr(operators, "ready", ready)
    with pytest.raises(AssertionError, match="no setting of the process: JERVIS_OPERATOR_NO_SUCH_NAME"):
        await operators.start(tmp_path / "log", {"NO_SUCH_NAME": 1}, ["jervis"])


def test_names_of_fields_and_their_aliases_are_read() -> None:
    variables.check(["JERVIS_SOURCES_CLAIM_SECONDS", "OTEL_SERVICE_NAME"], "sources.settings")
    assert {"GPU_BACKENDS", "JERVIS_ROUTER_GPU_BACKENDS", "JERVIS_ROUTER_PORT"} <= variables.read_by("router.settings")
    variables.check(["JERVIS_TERMINATION_LOG", "JERVIS_HANDOVER_URL"], "orchestrator_job.settings")
