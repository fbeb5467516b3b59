"""The pod that analyses a repository: cloned by smart HTTP, reported to a knowledge base, whatever Joern left."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from codegraph import api
from crds import scope
from kb import client, metrics, mongo
from kb.code import joern_queries
from kb.service.http import analyze
from orchestrator_job.analyze import clone, layout, report
from tests.joern import tree
from tests.kb import clock as clocks
from tests.kb.ingest import trees
from tests.kb.service import test_code_queries
from tests.orchestrator_job.analyze.conftest import Base, Pod, job_token
from tests.sources.git.making import Repository

pytestmark = pytest.mark.services
WHERE = scope.Scope(client_id="acme", project_id="apollo")
OWNER = {"CLIENT": "acme", "PROJECT": "apollo"}


def recorded(pod: Pod) -> None:
    """What a real run of Joern left of this tree."""
    (pod.left / "cpg-export.json").write_bytes(Path(tree.__file__).with_name("export.json").read_bytes())


async def test_a_repository_is_cloned_analysed_and_known(
    sources: str, base: Base, pod: Pod, repository: Repository
) -> None:
    asked = {"SOURCES_URL": sources, "CONNECTION": "code"}
    status, said, printed = await asyncio.to_thread(pod.run, "clone", asked)
    assert (status, said) == (0, {}), printed
    source = json.loads((pod.work / "source.json").read_text())
    assert source == {
        "repository": f"{repository.path.parent}/shop".strip("/"),
        "branch": "main",
        "commit": repository.sha("main"),
        "default": "main",
    }
    assert (pod.work / "source/native/shape.c").read_text() == tree.FILES["native/shape.c"]
    recorded(pod)
    to = OWNER | {"KB_URL": base.url, "STEPS": "Cpg,Structure,Overview"}
    status, said, printed = await asyncio.to_thread(pod.run, "report", to)
    assert status == 0, printed
    assert said.get("failure") is None
    assert (said["commit"], said["branch"]) == (source["commit"], "main")
    assert said["structure"]["files"] == len(tree.FILES)
    assert (sorted(said["cpg"]["languages"]), said["cpg"]["missing"]) == (["c", "java", "python"], ["kotlin"])
    assert said["cpg"]["calls"] > 3
    overview = (await base.typed.fetch(WHERE, said["overview"]["key"])).decode()
    assert "Shapes and their areas." in overview
    assert "Ada: Shapes" in overview
    found = await base.typed.code.callers(api.Callers(scope=WHERE, symbol="checked"))
    assert [(one.caller.name, one.rule) for one in found.calls] == [("shape_area", "joern")]


async def reported(base: Base, pod: Pod, *steps: str) -> tuple[dict[str, Any], layout.Failure | None]:
    async with httpx.AsyncClient(trust_env=False, timeout=60.0) as http:
        kb = client.Client(base.url, http, attempts=1)
        return await report.Report(kb, layout.Work(pod.work), WHERE, 5.0).steps(steps)


def cloned(sources: str, pod: Pod, *, ref: str = "", connection: str = "code", bearer: str = "") -> layout.Source:
    (pod.work.parent / "token").write_text(bearer or pod.token)
    making = clone.Clone(sources, connection, pod.work.parent / "token", 5.0, sleep=lambda _: None)
    return making.make(ref, layout.Work(pod.work))


async def test_what_joern_does_not_say_takes_nothing_else_along(sources: str, base: Base, pod: Pod) -> None:
    await asyncio.to_thread(cloned, sources, pod)
    (pod.left / "failure.json").write_text(json.dumps({"reason": "OutOfMemory", "message": "more than 1g"}))
    found, failure = await reported(base, pod, "Structure", "Cpg")
    assert failure is not None
    assert (failure.reason, failure.message) == ("OutOfMemory", "more than 1g")
    assert found["structure"]["symbols"] > 10
    assert json.loads(layout.message(found, failure))["failure"]["reason"] == "OutOfMemory"
    again, _ = await reported(base, pod, "Structure")
    assert again["structure"]["known"] is True, "what the knowledge base has is not sent again"


async def test_a_branch_that_moved_on_meanwhile_is_not_brought_back(
    sources: str, base: Base, pod: Pod, repository: Repository
) -> None:
    before = await asyncio.to_thread(cloned, sources, pod)
    recorded(pod)
    await reported(base, pod, "Structure")
    request = trees.tree({"native/new.c": "int more(void)\n{\n    return 1;\n}\n"}, commit="b" * 40)
    await base.typed.code.structure(request.model_copy(update={"scope": WHERE, "repository": before.of}))
    found, failure = await reported(base, pod, "Cpg")
    assert failure is not None
    assert (failure.reason, found.get("cpg"), found.get("structure")) == ("CommitMoved", None, None)
    assert before.commit in failure.message
    assert "b" * 40 in failure.message
    assert (await base.typed.code.map(api.CodeMap(scope=WHERE))).coverage.commit == "b" * 40


@pytest.mark.parametrize("step", ["Structure", "Cpg"])
async def test_the_token_of_a_job_is_for_its_own_repository(base: Base, pod: Pod, step: str) -> None:
    """The checks of both routes, whatever the pod believes that it cloned."""
    where = api.Repository(org="acme", name="shop")
    sent: dict[str, Callable[[client.Client], Awaitable[Any]]] = {
        "Structure": lambda kb: kb.code.structure(
            api.GitStructure(scope=WHERE, repository=where, branch="main", commit="a" * 40)
        ),
        "Cpg": lambda kb: kb.code.enrich(api.Cpg(scope=WHERE, repository=where, branch="main", commit="a" * 40)),
    }
    async with httpx.AsyncClient(trust_env=False, timeout=60.0) as http:
        other = client.Client(base.url, http, job_token("acme/other"))
        with pytest.raises(client.Rejected) as caught:
            await sent[step](other)
        assert (caught.value.status, caught.value.field) == (403, "repository")
        own = client.Client(base.url, http, job_token("acme/shop"))
        if step == "Structure":
            assert (await sent[step](own)).state == "Done"
        else:
            with pytest.raises(client.Rejected, match="no structure") as caught:
                await sent[step](own)
            assert (caught.value.status, caught.value.field) == (409, "branch")


async def test_an_export_alone_brings_the_structure_that_it_stands_on(sources: str, base: Base, pod: Pod) -> None:
    await asyncio.to_thread(cloned, sources, pod)
    recorded(pod)
    found, failure = await reported(base, pod, "Cpg")
    assert failure is None
    assert found["cpg"]["calls"] > 3
    asked = api.Callers(scope=WHERE, symbol="checked")
    assert (await base.typed.code.callers(asked)).coverage.analysed == found["commit"]


@pytest.mark.parametrize(
    ("left", "reason", "words"),
    [
        ({}, "JoernFailed", "neither a result nor a reason"),
        ({"cpg-export.json": b"{"}, "JoernFailed", "cpg-export.json is not of its form"),
        ({"cpg-export.json": b'{"version": 1, "calls": [[0, 0, 0]]}'}, "JoernFailed", "calls has"),
        ({"cpg-export.json": b" " * (layout.EXPORT_BYTES + 1)}, "JoernFailed", "more than 15 MiB"),
        ({"failure.json": b'{"reason": "not a word", "message": ""}'}, "JoernFailed", "reason"),
    ],
)
async def test_what_joern_leaves_is_not_believed(
    sources: str, base: Base, pod: Pod, left: dict[str, bytes], reason: str, words: str
) -> None:
    layout.Work(pod.work).cloned(layout.Source(repository="acme/shop", branch="main", commit="a" * 40))
    for name, body in left.items():
        (pod.left / name).write_bytes(body)
    _, failure = await reported(base, pod, "Cpg")
    assert failure is not None
    assert failure.reason == reason
    assert words in failure.message


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ref": "absent"}, "no branch 'absent'"),
        ({"connection": "other"}, "there is no Git Connection"),
        ({"bearer": "no-token"}, "token"),
    ],
)
async def test_a_clone_that_cannot_be_says_why(sources: str, pod: Pod, asked: dict[str, str], words: str) -> None:
    with pytest.raises(layout.Failure, match=words) as caught:
        await asyncio.to_thread(cloned, sources, pod, **asked)
    assert caught.value.reason == "CloneFailed"


async def test_a_sources_process_that_is_away_is_asked_again(pod: Pod) -> None:
    pauses: list[float] = []
    (pod.work.parent / "token").write_text("t")
    clock = iter(range(0, 1000, 2))
    making = clone.Clone(
        "http://127.0.0.1:1", "code", pod.work.parent / "token", 10.0,
        monotonic=lambda: float(next(clock)), sleep=pauses.append,
    )  # fmt: skip
    with pytest.raises(layout.Failure, match="does not answer"):
        making.make("", layout.Work(pod.work))
    assert pauses == [clone.PAUSE] * 4


async def test_links_in_a_repository_lead_nowhere(sources: str, pod: Pod, repository: Repository) -> None:
    repository.commit("A link", {"native/passwd.c": b"/etc/passwd"}, modes={"native/passwd.c": "120000"})
    await asyncio.to_thread(cloned, sources, pod)
    assert not (pod.work / "source/native/passwd.c").is_symlink()


async def test_the_answer_of_a_query_is_handed_over(
    pod: Pod, database: mongo.Database, clock: clocks.Clock, meters: metrics.Metrics
) -> None:
    work, numbers = layout.Work(pod.work), itertools.count()
    work.cloned(layout.Source(repository="acme/shop", branch="main", commit="a" * 40))
    rows = joern_queries.Queries(database, clock, lambda: f"q{next(numbers)}")
    async with test_code_queries.served(analyze.Analyze(rows, allowed=True), clock, meters) as raw:
        asks = client.Client(str(raw.base_url), raw)

        async def handed(left: dict[str, Any]) -> tuple[api.CodeAnswer, layout.Failure | None]:
            id_ = (await asks.analyze.ask(test_code_queries.asked(WHERE))).id
            await asks.analyze.claim(1)
            (pod.left / "query.json").write_text(json.dumps(left))
            own = client.Client(str(raw.base_url), raw, test_code_queries.token(clock, id_, WHERE))
            found, failure = await report.Report(own, work, WHERE, 5.0).answered(id_)
            assert found == {"commit": "a" * 40}
            return await asks.analyze.show(WHERE, id_), failure

        row, failure = await handed({"state": "Succeeded", "result": "main\nsquared"})
        assert (row.state, row.result, row.commit, failure) == ("Succeeded", "main\nsquared", "a" * 40, None)
        row, failure = await handed({"state": "Failed", "reason": "InvalidQuery", "message": "no"})
        assert (row.state, row.reason, row.message) == ("Failed", "InvalidQuery", "no")
        assert failure is not None
        for odd in ({"state": "Failed", "reason": "no word"}, {"state": "Succeeded", "result": "x" * (1 << 20) + "x"}):
            row, failure = await handed(odd)
            assert (row.state, row.reason) == ("Failed", "JoernFailed")
            assert "query.json is not of its form" in row.message
        gone = client.Client(str(raw.base_url), raw, test_code_queries.token(clock, "gone", WHERE))
        _, failure = await report.Report(gone, work, WHERE, 5.0).answered("gone")
        assert failure is not None


async def test_settings_that_cannot_be_used_are_named(pod: Pod) -> None:
    status, _, printed = await asyncio.to_thread(pod.run, "report", {"KB_URL": "ftp://kb"})
    assert status == 2
    assert "JERVIS_ANALYZE_KB_URL" in printed
    assert "JERVIS_ANALYZE_CLIENT" in printed
