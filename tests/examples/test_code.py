"""examples/code: the Connection reads the repository of the example, and each of its questions has an answer."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import connection
from kb import client
from tests.cli.knowledge.conftest import Run, run
from tests.cli.knowledge.test_code import WHERE
from tests.conftest import ROOT
from tests.kb.conftest import clock, database, fake, meters, router, simulator
from tests.kb.ingest import trees
from tests.sources.git.making import Repository
from tests.sources.git.test_repository import Reading

pytestmark = pytest.mark.services
__all__ = ["clock", "database", "fake", "meters", "router", "run", "simulator"]
kb, site = trees.kb, trees.site
FOLDER = ROOT / "examples" / "code"
EXPECTED = {
    "callers rounded": "app.price.with_tax",
    "callees Order.due": "app.price.with_tax",
    "impact rounded": "tests/test_order.py",
    "path test_due rounded": "app.order.Order.due",
    "history rounded": "Half a cent counts as one",
    "history app/price.py": "renamed app/money.py to app/price.py",
    'where "an order is rounded down by a cent"': "app/price.py",
    "map --tokens 256": "app/price.py",
}


def questions() -> list[str]:
    lines = (FOLDER / "questions.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def committed(place: Path) -> Repository:
    """The example's files with a history: a file is renamed, a function is corrected."""
    files: dict[bytes | str, bytes | None] = {
        one.relative_to(FOLDER / "shop").as_posix(): one.read_bytes() for one in (FOLDER / "shop").rglob("*.py")
    }
    price = files.pop("app/price.py") or b""
    made = Repository(place)
    made.commit("Orders and their prices", {**files, "app/money.py": price.replace(b" + 0.5", b"")})
    made.commit("Money is a price", {"app/money.py": None, "app/price.py": price.replace(b" + 0.5", b"")})
    made.commit("Half a cent counts as one", {"app/price.py": price})
    return made


async def test_its_questions_have_answers(tmp_path: Path, site: tuple[client.Client, str], run: Run) -> None:
    typed, url = site
    manifest: dict[str, Any] = yaml.safe_load((FOLDER / "connection.yaml").read_text())
    repository = committed(tmp_path / "acme" / "shop.git")
    reading = Reading(tmp_path / "clone", repository.url)
    named = {**manifest["spec"], "url": f"file://{tmp_path}/acme/shop.git"}
    reading.spec = connection.Spec.model_validate(named)
    async for batch in reading.source().batches({}):
        for request in batch.commits:
            seen = request.model_copy(update={"access": reading.spec.access})
            assert {one.result for one in (await typed.git_commits(seen)).outcomes} == {"Stored"}
        for tree in batch.trees:
            await typed.code.send(tree.request.model_copy(update={"access": reading.spec.access}), tree.read)
    assert set(questions()) == EXPECTED.keys()
    for question, expected in EXPECTED.items():
        answer = (await run("code", *shlex.split(question), *WHERE, "--url", url)).succeeded()
        assert expected in answer.out, (question, answer)
