"""Only the very process that was started is ever taken for it or stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import errors, process


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[process.Daemon]:
    daemon = process.Daemon("sleeper", tmp_path)
    yield daemon
    daemon.stop()


def test_started_once_found_by_its_record_and_gone_after_stop(daemon: process.Daemon) -> None:
    daemon.start(["sleep", "600"])
    first = daemon.identity()
    daemon.start(["sleep", "600"])
    assert first is not None
    assert daemon.identity() == first
    daemon.stop()
    assert process.Identity.of(first.pid) is None
    assert daemon.identity() is None
    assert not daemon.record.exists()


def test_a_process_that_ignores_sigterm_is_killed(daemon: process.Daemon) -> None:
    daemon.start(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"])
    daemon.wait(lambda: daemon.tail() == "deaf", 10)
    identity = daemon.identity()
    assert identity is not None
    daemon.stop(grace=0.1)
    assert process.Identity.of(identity.pid) is None


@pytest.mark.parametrize("field", ["started", "boot"])
def test_a_recycled_pid_is_not_ours_and_is_left_alone(daemon: process.Daemon, field: str) -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        identity = process.Identity.of(bystander.pid)
        assert identity is not None
        other = {**dataclasses.asdict(identity), field: 1 if field == "started" else "an earlier boot"}
        daemon.record.write_text(json.dumps(other))
        assert daemon.identity() is None
        daemon.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_torn_record_names_no_process(daemon: process.Daemon) -> None:
    daemon.record.write_text('{"pid": 1')
    assert daemon.identity() is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet reaped
    assert process.Identity.of(child.pid) is None
    child.wait()


def test_the_end_of_the_log_is_shown_when_a_process_dies(daemon: process.Daemon) -> None:
    daemon.start(["sh", "-c", "echo the port is taken >&2; sleep 0.2; exit 3"])
    with pytest.raises(errors.NotReady, match=r"died while it was starting(.|\n)*the port is taken"):
        daemon.wait(lambda: False, 30)


def test_a_process_that_never_answers_is_reported_with_its_patience(daemon: process.Daemon) -> None:
    daemon.start(["sleep", "600"])
    with pytest.raises(errors.NotReady, match="sleeper is not ready after 0 s"):
        daemon.wait(lambda: False, 0)


def test_a_stopped_process_is_ended_all_the_same(daemon: process.Daemon) -> None:
    daemon.start(["sleep", "600"])
    identity = daemon.identity()
    assert identity is not None
    os.kill(identity.pid, signal.SIGSTOP)
    daemon.stop(grace=0.1)
    assert process.Identity.of(identity.pid) is None
