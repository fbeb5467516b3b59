"""`jervis-kb code` against the service on a socket: a folder is made known, and questions about it are answered, those
in Joern's language with the operator's part played by the test."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codegraph import api
from codegraph.branch import analyst
from codegraph.extract import budget
from kb import client, metrics, mongo
from kb.code import book, history, joern_queries, service
from kb.ingest import lanes
from kb.service.http import analyze, structures
from kb.service.http import code as code_http
from tests import waiting
from tests.cli import site
from tests.cli.knowledge.conftest import Run
from tests.joern import tree as sample
from tests.kb import clock as clocks
from tests.kb import world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.service import whole
from tests.kb.service.test_code_queries import served

pytestmark = pytest.mark.services
WHERE = ("--client", "acme", "--project", "shop")
COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")


@pytest.fixture
async def url(open_world: world.Opening, clock: clocks.Clock, database: mongo.Database) -> AsyncIterator[str]:
    async with open_world(aliases=aliases_memory.Registry(clock)) as kb:
        analysts, known = analyst.Analyst(), book.Book(database, clock)
        works = structures.Structures(kb.pipeline.structures(known, analysts, budget.Budget()), lanes.Lanes(kb.meters))
        asks = service.Questions(known, analysts)
        more = [*works.routes(), *code_http.Code(asks, history.History(asks, kb.graph)).routes()]
        async with whole.over(kb, kb.meters, clock, more=more) as (_, raw):
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
    git(place, ("init", "-q", "-b", "main"), ("add", "."), COMMIT)
    return place


def write(path: Path) -> None:
    path.write_text("x = 1\n")


def git(folder: Path, *commands: tuple[str, ...]) -> None:
    for command in commands:
        subprocess.run(["git", "-C", str(folder), *command], check=True)


@pytest.fixture
def code(run: Run, url: str) -> Run:
    """`jervis-kb code`."""

    async def call(*arguments: str) -> site.Done:
        return await run("code", *arguments, *WHERE, "--url", url)

    return call


async def test_a_folder_is_made_known_and_asked_about(code: Run, folder: Path) -> None:
    out = (await code("add", str(folder), "--repository", "acme/shop")).succeeded().out
    assert out.splitlines()[-1].startswith("3 files, 3 declarations, 2 calls at commit ")
    assert out.endswith("; 1 files skipped\n")
    out = (await code("callers", "rounded")).succeeded().out
    rows = [line.split() for line in out.splitlines()]
    assert ["shop.total", "price.rounded", "shop.py:5", "import", "1.00"] in rows
    assert "3 files, not read: 1 binary" in out
    out = (await code("impact", "rounded")).succeeded().out
    assert out.splitlines()[-2:] == ["Tests to run:", "tests/test_shop.py"]
    path = (await code("path", "test_total", "rounded", "-o", "json")).json
    assert [one["callee"]["name"] for one in path["calls"]] == ["total", "rounded"]
    assert "price.py:" in (await code("map", "--tokens", "64")).out


async def test_languages_whose_calls_are_not_known_are_named(code: Run, folder: Path) -> None:
    (folder / "lib.rs").write_text("fn total() { rounded() }\nfn rounded() {}\n")
    git(folder, ("add", "."), COMMIT)
    await code("add", str(folder), "--repository", "acme/shop")
    out = (await code("callers", "lib.rs:rounded")).succeeded().out
    assert out.splitlines()[-1].endswith("4 files, not read: 1 binary; calls not known: rust")


async def test_an_unknown_name_is_refused_with_the_nearest(code: Run, folder: Path) -> None:
    await code("add", str(folder), "--repository", "acme/shop")
    (await code("callers", "round")).refused("'round' is no declaration of this branch", "price.py:rounded")
    other = await code("add", str(folder.parent), "--repository", "acme/shop")
    other.refused("Name the working tree of a Git repository")


async def test_a_folder_with_odd_names_is_made_known_without_these(code: Run, folder: Path) -> None:
    for name in (b"caf\xe9.py", b"line\nbreak.py", b"README.md"):
        write(folder / os.fsdecode(name))
    git(folder, ("add", "."), COMMIT)
    out = (await code("add", str(folder), "--repository", "acme/shop")).succeeded().out
    assert out.splitlines()[-1].startswith("3 files, ")
    assert out.endswith("; 3 files skipped\n")
    assert "3 files, not read: 2 odd-name, 1 binary" in (await code("callers", "rounded")).out


async def test_what_joern_exported_is_put_beside_a_branch(code: Run, tmp_path: Path) -> None:
    place, export = tmp_path / "joern", tmp_path / "cpg-export.json"
    for path, text in sample.FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    git(place, ("init", "-q", "-b", "main"), ("add", "."), COMMIT)
    at = ("--repository", "acme/shop", "--folder", str(place))
    export.write_text("{}")
    wrong = await code("enrich", str(export), *at)
    wrong.refused(f"{export} is no export", "cpg-export.json that /opt/joern/analyze left")
    export.write_bytes(sample.RECORDED.read_bytes())
    (await code("enrich", str(export), *at)).refused("no structure of the branch is known")
    await code("add", str(place), "--repository", "acme/shop")
    enriched = (await code("enrich", str(export), *at)).succeeded()
    assert enriched.err == "kotlin: 1 files not analyzed: LanguagesMissing\n"
    counted = re.fullmatch(
        r"(\d+) calls, (\d+) bases, (\d+) uses of types, (\d+) signatures at commit .*\n", enriched.out
    )
    assert counted is not None, enriched
    assert [int(one) > 0 for one in counted.groups()] == [True, False, True, True]
    out = (await code("callers", "checked")).succeeded().out
    assert "shape_area" in out
    assert "joern" in out


ASK = ("code", "query", "cpg.method.name.l", "--connection", "code", "-n", "team-a")


@pytest.fixture
async def kb(
    database: mongo.Database, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[tuple[str, client.Client]]:
    numbers = itertools.count()
    rows = joern_queries.Queries(database, clock, lambda: f"query{next(numbers)}")
    async with served(analyze.Analyze(rows, allowed=True), clock, meters) as http:
        yield str(http.base_url), client.Client(str(http.base_url), http)


async def test_it_waits_for_the_result(kb: tuple[str, client.Client], run: Run) -> None:
    url, operator = kb
    where = (*WHERE, "--url", url)
    asks = asyncio.ensure_future(run(*ASK, *where))
    works = await waiting.eventually(lambda: operator.analyze.claim(1), "the program asks")
    await operator.analyze.end(works[0].id, api.QueryResult(commit="abc", result='List("f")\x1b[2J'))
    done = (await asks).succeeded()
    assert done.out == 'List("f")\N{REPLACEMENT CHARACTER}[2J\n'
    assert done.err.startswith("query query0\n")
    assert (await run(*ASK, *where, "--no-wait")).succeeded().out == "query1\n"
    await operator.analyze.claim(1)
    failure = api.QueryFailure(reason="InvalidQuery", message="';' expected.")
    await operator.analyze.end("query1", api.QueryResult(failure=failure))
    (await run("code", "result", "query1", *where)).refused("InvalidQuery", "';' expected.")
