"""What is said of builds: a line each on a terminal, few lines in a log, and a log that is named when one fails."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest

from hack.cluster import binaries, errors, progress
from tests import waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def timeless(text: str) -> list[str]:
    return [re.sub(r"[0-9.]+(?= s\b)|\[ *[0-9.]+s\]", "N", line) for line in text.splitlines()]


def test_a_log_has_a_line_at_the_start_at_the_end_and_now_and_then_between() -> None:
    stream = io.StringIO()
    report, began = progress.Progress(stream, every=0.2), time.monotonic()
    with report.step("building kubernetes", 290):
        waiting.until(lambda: stream.getvalue().count("s of about 290 s\n") >= 2, "two lines", pause=0.01)
    first, *between, last = timeless(stream.getvalue())
    assert first == "N building kubernetes ... (about N s)"
    assert set(between) == {"N building kubernetes: N s of about N s"}
    assert 2 <= len(between) <= (time.monotonic() - began) / 0.2, "no more often than it is to be"
    assert last == "N building kubernetes: done in N s"


def test_a_step_that_fails_says_so() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError), progress.Progress(stream).step("building helm"):
        raise ValueError
    assert timeless(stream.getvalue()) == ["N building helm ...", "N building helm: failed after N s"]


def test_a_terminal_shows_one_line_per_running_step_below_what_is_over() -> None:
    stream = Terminal()
    report = progress.Progress(stream, every=0.1)
    with report.step("building kubernetes", 290):
        with report.step("building helm"):
            time.sleep(0.25)
        report.say("something else")
    screen: list[str] = []
    for piece in re.split(r"(\x1b\[\d+A\x1b\[J)", stream.getvalue()):
        if up := re.fullmatch(r"\x1b\[(\d+)A\x1b\[J", piece):
            del screen[-int(up.group(1)) :]
        else:
            screen += piece.splitlines()
        assert sum("of about 290 s" in line for line in screen) <= 1
    assert timeless("\n".join(screen)) == [
        "N building helm: done in N s",
        "N something else",
        "N building kubernetes: done in N s",
    ]


def test_what_a_build_says_is_in_a_log_which_its_failure_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    says = "import sys; print('go: downloading a v1'); print('main.go:3: undefined', file=sys.stderr); sys.exit(2)"
    with pytest.raises(errors.Failure) as failed:
        binaries.logged("helm", sys.executable, "-c", says, cwd=tmp_path, reach="the Go module proxy")
    log = tmp_path / "jervis/logs/helm.log"
    assert str(log) in str(failed.value)
    assert str(failed.value).endswith("main.go:3: undefined")
    assert "go: downloading" not in str(failed.value)
    assert "go: downloading a v1" in log.read_text()
    assert capfd.readouterr() == ("", "")
