"""Files that a run has changed are handed back: as a branch, or as a patch that Git takes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from controllers.archive import traces
from orchestrator_job.effects import patches
from tests.fakes.ollama import process
from tests.orchestrator_job import cases, office
from tests.orchestrator_job.agents.test_agents_end_to_end import carried_out, clock, database, meters
from tests.orchestrator_job.cases import COMMIT, Held, Part, Round, call
from tests.orchestrator_job.office import place

__all__ = ["clock", "database", "meters", "place"]
pytestmark = pytest.mark.services

OPEN, EDIT, COMMITS = cases._OPEN, cases._EDIT, cases._COMMIT
SAID = "Correct the function area in the repository code: it must multiply."
AREA = "def area(w, h):\n    return w * h\n"


def coding(*calls: cases.Call, held: Held | None = None, said: str = SAID, agent: str = "Coding") -> Round:
    return Round(said, (Part(agent, calls, "It multiplies now."),), held)


async def round_of(place: office.Office, fake: process.Fake, asked: Round, **said: Any) -> dict[str, Any]:
    return await carried_out(place, fake, asked, {"content": SAID, "messages": [], **said})


def stored(place: office.Office, key: str) -> str:
    """An artifact as `kubectl jervis artifacts NAME --get KEY` gives it."""
    [kept] = place.made.store.all("orchestrator_artifacts", _id=f"{place.desk.task.uid}/{key}")
    return str(json.loads(kept["body"]))


def applied(place: office.Office, folder: Path, changes: dict[str, Any]) -> Path:
    """A clone at the commit that the changes are made on, with the patch taken over."""
    folder.mkdir()
    (folder / "changes.patch").write_text(stored(place, changes["patch"]), newline="")
    (folder / "packed").write_bytes(place.pushed.remote.git("archive", "--format=tar", changes["base"]))
    for words in (("git", "init", "-q", "tree"), ("tar", "-xf", "packed", "-C", "tree")):
        subprocess.run(words, cwd=folder, check=True)
    subprocess.run(("git", "apply", "../changes.patch"), cwd=folder / "tree", check=True)
    return folder / "tree"


async def test_changed_files_without_a_push_are_a_patch(
    place: office.Office, fake: process.Fake, tmp_path: Path
) -> None:
    write = call("write_file", "Written: build/new.txt.", path="build/new.txt", content="Žluťoučký\r\n")
    result = await round_of(place, fake, coding(OPEN, EDIT, COMMITS, write))
    [changes] = result["changes"]
    assert {name: changes[name] for name in ("connection", "branch", "files", "pushed", "commit")} == {
        "connection": "code", "branch": "main", "files": 2, "pushed": "", "commit": ""
    }  # fmt: skip
    assert list(traces.artifacts(result)) == [changes["patch"]]
    assert stored(place, changes["patch"]).startswith(f"For git apply in code, branch main at {changes['base']}:\n\n")
    tree = applied(place, tmp_path / "taken", changes)
    assert (tree / "src" / "area.py").read_text() == AREA
    assert (tree / "build" / "new.txt").read_bytes() == "Žluťoučký\r\n".encode()

    # Another round, which changes nothing: its result has them as well.
    more = [{"id": "m1", "text": "Is it done?"}]
    result = await round_of(place, fake, coding(call("show_changes", "+    return w * h")), messages=more)
    assert [one["patch"] for one in result["changes"]] == [changes["patch"]]
    assert stored(place, changes["patch"])


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
async def test_a_push_takes_the_place_of_the_patch_and_a_rejected_one_does_not(
    place: office.Office, fake: process.Fake, tmp_path: Path, verdict: str
) -> None:
    first = await round_of(place, fake, coding(OPEN, EDIT, COMMITS))
    head = place.commit()
    said = "done" if verdict == "Approved" else "not"
    push = call("push_branch", said, branch="jervis/area", commit=COMMIT)
    held = Held("push_branch", "No permit names pushBranch at code with jervis/area.", verdict)
    more = [{"id": "m1", "text": "Push it as the branch jervis/area."}]
    result = await round_of(place, fake, coding(push, held=held, agent="Git"), messages=more)
    [changes] = result["changes"]
    if verdict == "Approved":
        assert (changes["pushed"], changes["commit"], changes["patch"]) == ("jervis/area", head, "")
        assert traces.artifacts(result) == {}
    else:
        assert (changes["pushed"], changes["patch"]) == ("", first["changes"][0]["patch"])
        assert place.outside()["branches"] == ["main"]
        assert (applied(place, tmp_path / "taken", changes) / "src" / "area.py").read_text() == AREA


async def test_a_patch_that_is_too_large_says_so(place: office.Office, fake: process.Fake) -> None:
    big = call("write_file", "Written: big.txt.", path="big.txt", content="0123456789abcde\n" * (patches.MOST // 16))
    result = await round_of(place, fake, coding(OPEN, big))
    [changes] = result["changes"]
    assert f"At most {patches.MOST} bytes are kept." in changes["note"]
    said = stored(place, changes["patch"])
    assert said.startswith(changes["note"])
    assert "big.txt" in said
    assert len(said) < 1000
