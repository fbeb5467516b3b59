"""A volume without room, a real one of 256 KiB: its own reason, and nothing that looks like an answer of the server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import prometheus_client
import pytest

from sources import metrics
from sources.core import cleanup, port
from tests import needs
from tests.sources.git.making import Repository

_CODE = """
import subprocess, sys
from pathlib import Path
from sources.core import port
from sources.providers.git import clone, command
root, url, options, what = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", root], check=True)
one = clone.Workspace(Path(root), 1 << 30, 1 << 30).clone("uid")
at = command.remote(url, {}, plain=True, authorities="", seconds=60)
try:
    if what == "find":
        Path(root, "uid.git").mkdir()
        command.local(Path(root, "uid.git"), "init", "--quiet", "--bare", "--template=")
        one.find(at, clone.listed(at).branches["main"])
    else:
        one.bring(at, clone.listed(at).branches, "main")
except port.DiskFull as error:
    print(error.message, error.remedy)
    print(sorted(path.name for path in Path(root).iterdir() if path.name.endswith(".part")))
"""


@pytest.mark.parametrize(
    ("options", "what"), [("size=256k", "bring"), ("size=256k", "find"), ("size=256k,nr_inodes=1", "bring")]
)
def test_a_full_volume_has_its_own_error(tmp_path: Path, options: str, what: str) -> None:
    made = Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.commit("Large", {"noise": os.urandom(1 << 20)})
    root = tmp_path / "volume"
    root.mkdir()
    done = subprocess.run(
        [*needs.mounting(), sys.executable, "-c", _CODE, str(root), made.url, options, what],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        check=True,
    )
    said, left = done.stdout.splitlines()
    assert said.startswith("The volume of the sources process is full: ")
    assert "No space left on device" in said
    assert "sources.workspace.sizeLimit" in said
    assert left == "[]"


def test_other_errors_of_files_stay_what_they_are() -> None:
    with pytest.raises(PermissionError), port.disk():
        raise PermissionError(13, "Permission denied")


async def test_a_step_that_fails_ends_no_loop_and_holds_up_no_other() -> None:
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    done: list[str] = []

    async def full() -> int:
        done.append("full")
        raise OSError(28, "No space left on device")

    async def bug() -> int:
        done.append("bug")
        raise KeyError("x")

    async def good() -> int:
        done.append("good")
        return 3

    async def sleep(_: float) -> None:
        if len(done) >= 6:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await cleanup.Cleanup({"clones": full, "items": bug, "uploads": good}, measured, sleep=sleep).run()
    assert done == ["full", "bug", "good"] * 2
    read = measured.registry.get_sample_value
    assert read("jervis_sources_left_over_total", {"kind": "uploads"}) == 6
    assert read("jervis_sources_loop_failures_total") == 2
