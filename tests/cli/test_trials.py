"""`models --check`: what is said of a Job that asks models, that fails, or that never begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cli import errors, kube
from cli.commands import models
from cli.output import Format, Output
from cli.session import Session
from router.client import trials
from tests.cli import outside

_COMPLETE = {"type": "Complete", "status": "True"}
_FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it exited with 2"}


@pytest.fixture
def jobs() -> Iterator[outside.Jobs]:
    with outside.Jobs().in_thread() as server:
        yield server


def line(task: str, verdict: trials.Verdict = trials.Verdict.RIGHT) -> bytes:
    result = trials.Result(role="qualifier", model="m", task=task, language="en", verdict=verdict, valid=True, tries=1)
    return f"{trials.MARK}{result.model_dump_json(by_alias=True)}\n".encode()


def count(number: int) -> bytes:
    return f"{trials.COUNT}{number}\n".encode()


def pod(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "trials", "state": state}], **status}}


class Time:
    """A clock that only `sleep` moves, by a minute; then the next of `changes` happens."""

    def __init__(self, *changes: Callable[[], object]) -> None:
        self.changes, self.seconds = list(changes), 0.0

    def sleep(self, seconds: float) -> None:
        assert seconds
        self.seconds += 60.0
        if self.changes:
            self.changes.pop(0)()


def judged(jobs: outside.Jobs, tmp_path: Path, *changes: Callable[[], object]) -> int:
    """The exit status."""
    time = Time(*changes)
    connected = kube.connect(str(jobs.config(tmp_path / "config")), None, None, 5.0)
    try:
        session = Session(connected, Output(Format.TABLE), clock=lambda: time.seconds, sleep=time.sleep)
        models.judged(session, session.output)
    except typer.Exit as left:
        return left.exit_code
    finally:
        connected.close()
    return 0


def test_all_results_are_read_even_where_the_stream_of_the_log_ends_early(
    jobs: outside.Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.pods = [pod({"running": {}})]
    first = count(2) + line("a") + line("b")
    jobs.logs = [count(2) + line("a") + line("b")[:60], first + outside.Jobs.BROKEN, first + count(1) + line("c")]
    code = judged(jobs, tmp_path, lambda: None, lambda: None, lambda: jobs.conditions.append(_COMPLETE))
    said = capsys.readouterr()
    assert (code, jobs.deleted) == (0, [])
    assert [text.split()[-1] for text in said.err.splitlines() if "qualifier:" in text] == ["a", "b", "c"]
    assert said.out.splitlines()[1].split() == ["qualifier", "m", "yes", "3/3", "3/3", "3", "0"]


def test_a_wrong_answer_is_a_model_that_is_not_enough(jobs: outside.Jobs, tmp_path: Path) -> None:
    jobs.pods, jobs.conditions = [pod({"terminated": {}})], [_COMPLETE]
    jobs.logs = [count(1) + line("a", trials.Verdict.WRONG)]
    assert judged(jobs, tmp_path) == 1


@pytest.mark.parametrize(
    ("log", "words"),
    [(b"", "has no results"), (count(14) + line("a"), "has 1 of 14 results"), (count(0), "no results")],
)
def test_a_job_that_did_not_ask_everything_is_no_success(
    jobs: outside.Jobs, tmp_path: Path, log: bytes, words: str
) -> None:
    jobs.pods, jobs.logs = [pod({"terminated": {}})], [log]
    with pytest.raises(errors.Unavailable, match=words):
        judged(jobs, tmp_path, lambda: jobs.conditions.append(_COMPLETE))
    assert jobs.deleted == []


@pytest.mark.parametrize("early", [[], [{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}]])
def test_a_job_that_fails_is_waited_for(jobs: outside.Jobs, tmp_path: Path, early: list[dict[str, Any]]) -> None:
    """The log ends before the Job has its condition, and the pod may be gone by then."""
    jobs.pods, jobs.logs, jobs.conditions = [pod({"terminated": {}})], [count(14) + line("a")], early

    def fail() -> None:
        jobs.conditions, jobs.pods = [*early, _FAILED], []

    with pytest.raises(errors.Unavailable, match="failed: it exited with 2"):
        judged(jobs, tmp_path, lambda: None, fail)
    # Its log says why.
    assert jobs.deleted == []


def test_a_job_without_an_end_is_given_up(jobs: outside.Jobs, tmp_path: Path) -> None:
    jobs.pods, jobs.logs = [pod({"terminated": {}})], [count(14) + line("a")]
    with pytest.raises(errors.Unavailable, match="neither Complete nor Failed"):
        judged(jobs, tmp_path)
    assert jobs.deleted == [jobs.name]


def test_what_hinders_a_job_is_said_once_and_then_it_is_given_up(
    jobs: outside.Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def events() -> None:
        stamps = {"type": "Warning", "reason": "FailedCreate", "lastTimestamp": "2026-11-29T08:00:00Z"}
        older = {**stamps, "lastTimestamp": "2026-11-29T07:00:00Z", "message": "older"}
        jobs.events = [{**stamps, "message": "must specify limits.cpu"}, older, {"type": "Normal", "message": "no"}]

    def unscheduled() -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        jobs.pods = [{"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [condition]}}]

    def pulling() -> None:
        jobs.pods = [pod({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}, phase="Pending")]

    with pytest.raises(errors.Unavailable, match="has not begun: ImagePullBackOff Back-off"):
        judged(jobs, tmp_path, events, lambda: None, unscheduled, pulling)
    assert capsys.readouterr().err.splitlines() == [
        "The Job waits: it has no pod",
        "The Job waits: FailedCreate must specify limits.cpu",
        "The Job waits: Unschedulable 0/1 nodes",
        "The Job waits: ImagePullBackOff Back-off",
    ]
    assert jobs.deleted == [jobs.name]


@pytest.mark.parametrize("refused", [False, True])
def test_an_interrupted_check_takes_its_job_away(
    jobs: outside.Jobs, tmp_path: Path, refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    jobs.refused = {"DELETE"} if refused else set()
    with pytest.raises(KeyboardInterrupt):
        judged(jobs, tmp_path, interrupt)
    assert jobs.deleted == ([] if refused else [jobs.name])
    assert (f"The Job {jobs.name!r} goes on: jobs is forbidden." in capsys.readouterr().err) is refused


def test_a_slow_model_is_not_given_up(jobs: outside.Jobs, tmp_path: Path) -> None:
    jobs.pods, jobs.logs = [pod({"running": {}})], [count(1)]
    waits: list[Callable[[], object]] = [lambda: None] * 30

    def end() -> None:
        jobs.conditions, jobs.logs = [_COMPLETE], [count(1) + line("a")]

    assert judged(jobs, tmp_path, *waits, end) == 0
