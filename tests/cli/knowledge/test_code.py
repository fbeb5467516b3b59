"""`jervis-kb code` against the service on a socket: a folder is made known, and questions about it are answered."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.knowledge import __main__ as program
from kb import metrics, mongo
from kb.code import analyst, asking, book, budget, history
from kb.http import code as code_http
from kb.http import structures
from kb.ingest import lanes
from router import client as router_client
from tests.joern import tree as sample
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.conftest import clock, database, fake, meters, router, simulator
from tests.kb.http import whole

pytestmark = pytest.mark.services
__all__ = ["clock", "database", "fake", "meters", "router", "simulator"]
WHERE = ("--client", "acme", "--project", "shop")


@pytest.fixture
async def url(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
) -> AsyncIterator[str]:
    held = (memory.Vectors(), memory.Content())
    async with world.opened(tmp_path, router, clock, meters, *held, aliases=aliases_memory.Registry(clock)) as kb:
        analysts, known = analyst.Analyst(), book.Book(database, clock)
        works = structures.Structures(kb.pipeline.structures(known, analysts, budget.Budget()), lanes.Lanes(meters))
        asks = asking.Asking(known, analysts)
        more = [*works.routes(), *code_http.Code(asks, history.History(asks, kb.graph)).routes()]
        async with whole.over(kb, meters, clock, more=more) as (_, raw):
            yield str(raw.base_url)
        analysts.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with a function, its caller and a test."""
    place = tmp_path / "work"
    (place / "tests").mkdir(parents=True)
    (place / "price.py").write_text("def rounded(x: float) -> float:\n    return round(x, 2)\n")
    (place / "shop.py").write_text("from price import rounded\n\n\ndef total() -> float:\n    return rounded(1.0)\n")
    (place / "tests" / "test_shop.py").write_text("from shop import total\n\n\ndef test_total():\n    total()\n")
    (place / "logo.py").write_bytes(b"\0\1")
    commit = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    git(place, ("init", "-q", "-b", "main"), ("add", "."), commit)
    return place


def write(path: Path) -> None:
    path.write_text("x = 1\n")


def git(folder: Path, *commands: tuple[str, ...]) -> None:
    for command in commands:
        subprocess.run(["git", "-C", str(folder), *command], check=True)


async def run(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output, errors."""
    capsys.readouterr()

    def work() -> int:
        try:
            return program.main([*arguments, *WHERE, "--url", url])
        except SystemExit as ended:
            return int(ended.code or 0)

    code = await asyncio.to_thread(work)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


async def test_a_folder_is_made_known_and_asked_about(
    url: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = await run(capsys, url, "code", "add", str(folder), "--repository", "acme/shop")
    assert code == 0, out
    assert out.splitlines()[-1].startswith("3 files, 3 declarations, 2 calls at commit ")
    assert out.endswith("; 1 files skipped\n")
    code, out, _ = await run(capsys, url, "code", "callers", "rounded")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["shop.total", "price.rounded", "shop.py:5", "import", "1.00"] in rows
    assert "3 files, not read: 1 binary" in out
    code, out, _ = await run(capsys, url, "code", "impact", "rounded")
    assert (code, out.splitlines()[-2:]) == (0, ["Tests to run:", "tests/test_shop.py"])
    code, out, _ = await run(capsys, url, "code", "path", "test_total", "rounded", "-o", "json")
    assert [one["callee"]["name"] for one in json.loads(out)["calls"]] == ["total", "rounded"]
    code, out, _ = await run(capsys, url, "code", "map", "--tokens", "64")
    assert "price.py:" in out


async def test_an_unknown_name_is_refused_with_the_nearest(
    url: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(capsys, url, "code", "add", str(folder), "--repository", "acme/shop")
    code, _, err = await run(capsys, url, "code", "callers", "round")
    assert code != 0
    assert "'round' is no declaration of this branch" in err
    assert "price.py:rounded" in err
    code, _, err = await run(capsys, url, "code", "add", str(folder.parent), "--repository", "acme/shop")
    assert code != 0
    assert "Name the working tree of a Git repository" in err


async def test_a_folder_with_odd_names_is_made_known_without_these(
    url: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (b"caf\xe9.py", b"line\nbreak.py", b"README.md"):
        write(folder / os.fsdecode(name))
    git(folder, ("add", "."), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "y"))
    code, out, err = await run(capsys, url, "code", "add", str(folder), "--repository", "acme/shop")
    assert code == 0, err
    assert out.splitlines()[-1].startswith("3 files, ")
    assert out.endswith("; 3 files skipped\n")
    code, out, _ = await run(capsys, url, "code", "callers", "rounded")
    assert "3 files, not read: 2 odd-name, 1 binary" in out


async def test_what_joern_exported_is_put_beside_a_branch(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, export = tmp_path / "joern", tmp_path / "cpg-export.json"
    for path, text in sample.FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    commit = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    git(place, ("init", "-q", "-b", "main"), ("add", "."), commit)
    at = ("--repository", "acme/shop", "--folder", str(place))
    export.write_text("{}")
    code, _, err = await run(capsys, url, "code", "enrich", str(export), *at)
    assert code != 0
    assert f"{export} is no export" in err
    assert "cpg-export.json that /opt/joern/analyze left" in err
    export.write_bytes(sample.RECORDED.read_bytes())
    code, _, err = await run(capsys, url, "code", "enrich", str(export), *at)
    assert code != 0
    assert "no structure of the branch is known" in err
    await run(capsys, url, "code", "add", str(place), "--repository", "acme/shop")
    code, out, err = await run(capsys, url, "code", "enrich", str(export), *at)
    assert (code, err) == (0, "kotlin: 1 files not analyzed: LanguagesMissing\n")
    counted = re.fullmatch(r"(\d+) calls, (\d+) bases, (\d+) uses of types, (\d+) signatures at commit .*\n", out)
    assert counted is not None, out
    assert [int(one) > 0 for one in counted.groups()] == [True, False, True, True]
    code, out, _ = await run(capsys, url, "code", "callers", "checked")
    assert code == 0
    assert "shape_area" in out
    assert "joern" in out
