"""Spans of time, safe text, the choice of a pod, exit statuses, the sentence of an error, the order of the queue."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from cli import __main__ as main
from cli import age, codes, errors, order, pods
from crds import labels, pendingtask, phases
from crds.phases import Phase
from kb import client as kb
from router import client as router
from tests.cli import objects, site
from text import printable


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (250, "4m10s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 720, "5h12m"),
        (30 * 3600, "30h"),
        (76 * 3600, "3d4h"),
        (12 * 86400, "12d"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert age.span(seconds) == text


def test_printable() -> None:
    assert printable.text("a\r\nb\tč\x07") == "a\nb\tč\N{REPLACEMENT CHARACTER}"
    assert printable.line("a\n  b") == "a b"
    assert printable.line("abcdef", 4) == "abc…"
    assert printable.line("abcd", 4) == "abcd"


def test_the_installed_command_is_this_one() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    entry = metadata.EntryPoint("kubectl-jervis", project["scripts"]["kubectl-jervis"], "console_scripts")
    assert entry.load() is main.main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert site.call(capsys, "--version").out.strip()


def pod(name: str, attempt: str, created: str, state: Any = None) -> Any:
    statuses = [{"name": "sidecar", "state": {"running": {}}}]
    statuses += [{"name": labels.CONTAINER, "state": state}] if state else []
    return {
        "metadata": {"name": name, "labels": {labels.ATTEMPT: attempt}, "creationTimestamp": created},
        "status": {"phase": "Pending", "containerStatuses": statuses},
    }


def test_the_pod_of_the_latest_run() -> None:
    some = [pod("b", "10", "2026-01-01"), pod("a", "9", "2026-01-03"), pod("c", "10", "2026-01-02")]
    assert (pods.choose(some, None) or {})["metadata"]["name"] == "c"
    assert (pods.choose(some, 9) or {})["metadata"]["name"] == "a"
    assert pods.choose(some, 3) is None
    assert pods.attempt(pod("x", "no", "")) == 0


def test_a_log_needs_a_container_that_ran() -> None:
    assert not pods.readable(pod("a", "1", ""))
    waits = pod("a", "1", "", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    assert not pods.readable(waits)
    assert pods.trouble(waits) == "ImagePullBackOff no such image"
    assert pods.trouble(pod("a", "1", "")) == "Pending"
    assert pods.readable(pod("a", "1", "", {"running": {}}))
    assert pods.readable(pod("a", "1", "", {"terminated": {}}))


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (
            errors.Misplaced("No.", field="status.phase", remedy="Wait."),
            codes.REFUSED,
            "Error: No.\n  field: status.phase\n  remedy: Wait.\n",
        ),
        (errors.NotFound("No."), codes.REFUSED, "Error: No.\n"),
        (
            kb.Unavailable("Busy.", retry_after=3.0),
            codes.LATER,
            "Error: Busy.\n  remedy: Nothing is wrong with the command; try it again in 3 s.\n",
        ),
        (
            router.Unavailable("Away."),
            codes.LATER,
            "Error: Away.\n  remedy: Nothing is wrong with the command; try it again later.\n",
        ),
        (kb.Rejected("\x1b[2J", field="body"), codes.REFUSED, "Error: \N{REPLACEMENT CHARACTER}[2J\n  field: body\n"),
    ],
)
def test_errors(error: Any, code: int, sentence: str) -> None:
    assert codes.of(error) == code
    assert main.sentence(error) == sentence


def test_foreground_then_position_then_age() -> None:
    told = [
        ("old", {}, 90),
        ("placed-2", {"queuePosition": 2}, 10),
        ("placed-1", {"queuePosition": 1}, 5),
        ("chat", {"type": "UserInputProcessing"}, 1),
        ("foreground", {"mode": "Foreground"}, 2),
        ("urgent", {"mode": "Foreground", "queuePosition": 9}, 0),
        ("older", {}, 95),
        ("ours", {}, 3),
    ]
    high: dict[str, Any] = {"route": {"decision": "ExecuteHigh"}}
    raws = [objects.task(n, spec=spec, age=age, status=high if n == "ours" else None) for n, spec, age in told]
    tasks = [pendingtask.PendingTask.model_validate(raw) for raw in raws]
    names = [one.metadata.name for one in sorted(tasks, key=order.of)]
    assert names == ["urgent", "foreground", "chat", "placed-1", "placed-2", "ours", "older", "old"]


def test_waiting_is_neither_running_nor_ended() -> None:
    assert not order.WAITING & (phases.TERMINAL | phases.HOLDS_SLOT | {Phase.QUALIFYING, Phase.USER_TASK})
    assert order.phase(pendingtask.PendingTask.model_validate(objects.task())) is Phase.NEW
