"""Tasks whose repository is analyzed first: operator, sources process, apiserver, MongoDB's wire, a git daemon.

The nodes' part is played here: a Job's pod is an object whose containers end as a test says.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from codegraph import api
from crds import labels, scope
from kb import client, metrics, mongo
from kb.code import joern_queries
from kb.service.http import analyze
from tests import ports, waiting
from tests.fakes import nodes
from tests.kb.service.test_code_queries import served
from tests.operator.conftest import Space, database_name
from tests.operator.knowledge import Knowledge
from tests.operator.process import Operator, Start
from tests.operator.test_polling import Begin, condition
from tests.operator.test_polling import sources as sources  # a fixture
from tests.sources.git import making
from tests.sources.git.making import Repository
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
IMAGE = "registry.example.com/jervis-joern:1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ALL = ["Overview", "Structure", "Cpg"]


class Played:
    """The nodes: they run the pods of Jobs, and end Jobs."""

    def __init__(self, space: Space, label: str = labels.CODE_ANALYSIS) -> None:
        """`label`: of the Jobs that are looked at."""
        self._space, self._label = space, label

    def jobs(self) -> dict[str, Any]:
        """By name."""
        listed = self._space.batch.list_namespaced_job(self._space.name, label_selector=self._label)
        return {one.metadata.name: one for one in listed.items}

    def secret(self, name: str) -> dict[str, str]:
        """The decoded values of its Secret."""
        data = self._space.core.read_namespaced_secret(name, self._space.name).data or {}
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def pod(self, name: str, ends: dict[str, tuple[int, str, Any]]) -> None:
        """Its pod, whose containers ended: name -> (exit code, reason, message)."""
        job = self.jobs()[name]
        body: Any = {
            "metadata": {"name": f"{name[:50]}-{secrets.token_hex(2)}", "labels": dict(job.metadata.labels)},
            "spec": {"containers": [{"name": "report", "image": IMAGE}]},
        }
        core: Any = self._space.core
        made = core.create_namespaced_pod(self._space.name, body)
        *before, last = [
            nodes.container(nodes.ended(code, said, reason=reason), one) for one, (code, reason, said) in ends.items()
        ]
        failed = any(code for code, _, _ in ends.values())
        status = {"phase": "Failed" if failed else "Succeeded", "initContainerStatuses": before}
        status["containerStatuses"] = [last]
        core.patch_namespaced_pod_status(made.metadata.name, self._space.name, {"status": status})

    def end(self, name: str, reason: str = "") -> None:
        """What the Job controller says: complete, or failed for `reason`."""
        began = nodes.moment()
        for step in nodes.ends(1, reason) if reason else nodes.ends(0):
            status = {"startTime": began, **step}
            self._space.batch.patch_namespaced_job_status(name, self._space.name, {"status": status})

    def delete(self, name: str) -> None:
        self._space.batch.delete_namespaced_job(name, self._space.name, propagation_policy="Background")


@dataclass
class Place:
    """Where the sources process is, and what starts an operator beside it."""

    url: str
    begin: Callable[..., AbstractContextManager[Operator]]


@pytest.fixture
def played(space: Space) -> Played:
    return Played(space)


@pytest.fixture
def place(space: Space, start: Start, sources: Begin, keys: Path, tmp_path: Path) -> Iterator[Place]:
    """A sources process with a repository, and what starts the operator beside it."""
    made = Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.commit("One", {"src/app.py": b"def f(): return 1\n"})
    port = ports.free()
    url = f"http://127.0.0.1:{port}"

    @contextmanager
    def begin(**settings: object) -> Iterator[Operator]:
        known = {"SOURCES": True, "SOURCES_URL": url, "RUN_TOKEN_KEYS": keys, "JOERN_ENABLED": True}
        with start(**{**known, "JOERN_IMAGE": IMAGE, **settings}) as operator:
            until(lambda: condition(space, "Ready", "code") == ("True", "Polled"), "the Connection is polled")
            yield operator

    api = {"API_HOST": "127.0.0.1", "API_PORT": port, "RUN_TOKEN_KEYS": keys}
    with making.daemon(tmp_path / "srv") as daemon, sources(WORKSPACE=tmp_path / "clones", **api):
        spec = {"type": "Git", "clientId": "acme", "url": f"{daemon}/acme/storage.git", "pollInterval": "1h"}
        space.create("connections", "Connection", "code", spec)
        yield Place(url, begin)


def submit(space: Space, name: str, analysis: list[str], **spec: Any) -> str:
    """A task about the repository; the name of its Job."""
    git = {"connection": "code", "analysis": analysis}
    known = {"type": "GitProcessing", "clientId": "acme", "git": git, **spec}
    return f"code-{space.create('pendingtasks', 'PendingTask', name, known)['metadata']['uid']}"


def analyzed(space: Space, name: str) -> tuple[str, str, str]:
    found = space.condition(name, "CodeAnalyzed")
    return found["status"], found["reason"], found["message"]


def test_a_task_waits_for_its_analysis_and_goes_on_with_the_overview(
    space: Space, place: Place, played: Played, knowledge: Knowledge, tmp_path: Path
) -> None:
    with place.begin() as operator:
        before = len(space.every())
        name = submit(space, "cpg", ALL)
        until(lambda: space.status("cpg").get("git", {}).get("jobUid", "") != "", "its Job is made")
        assert (space.phase("cpg"), analyzed(space, "cpg")[:2]) == ("ReadyForQualification", ("Unknown", "Running"))
        job = played.jobs()[name]
        pod = job.spec.template.spec
        order = [one.name for one in (*pod.init_containers, *pod.containers)]
        assert order == ["clone", "structure", "joern", "report"]
        by_name = {one.name: one for one in (*pod.init_containers, *pod.containers)}
        assert [one for one in order if "token" in {m.name for m in by_name[one].volume_mounts}] == [
            "clone", "structure", "report",
        ]  # fmt: skip
        assert {one.name.removeprefix("JERVIS_ANALYZE_") for one in by_name["joern"].env} == {"HEAP", "SECONDS"}
        assert by_name["joern"].resources.limits == {"memory": "4Gi"}
        assert job.spec.backoff_limit == 0
        # Its token clones what it is for, and nothing else is open to it.
        token = played.secret(name)["token"]
        header = f"http.extraHeader=Authorization: Bearer {token}"
        clone = ["git", "-c", header, "clone", "-q", f"{place.url}/api/v1/git/code", str(tmp_path / "cloned")]
        until(lambda: subprocess.run(clone, check=False, capture_output=True).returncode == 0, "the token clones")
        assert (tmp_path / "cloned" / "src" / "app.py").exists()
        assert "401" in _refused(place, "not-a-token")
        assert "403" in _refused(place, token)
        stored = b"# acme/storage\n\nINFO Python, one file."
        reference = _store(knowledge, stored)
        structure = {"structure": {"files": 1, "symbols": 1}, "overview": reference, "commit": COMMIT}
        cpg = {"methods": 7, "calls": 9, "languages": ["python"], "missing": ["kotlin"]}
        played.pod(
            name,
            {
                "clone": (0, "Completed", ""),
                "structure": (0, "Completed", {**structure, "repository": "acme/storage", "branch": "main"}),
                "joern": (0, "Completed", ""),
                "report": (0, "Completed", {"commit": COMMIT, "cpg": cpg, "overview": None}),
            },
        )
        played.end(name)
        until(lambda: "route" in space.status("cpg"), "the task is qualified by its overview")
        assert analyzed(space, "cpg") == (
            "True", "Succeeded",
            "acme/storage main at 0123456789ab: 1 files with 1 declarations, by Joern 7 methods and 9 further calls in "
            "python (not read: kotlin), an overview.",
        )  # fmt: skip
        found = space.status("cpg")["git"]
        assert (found["methods"], found["calls"], found["skippedLanguages"]) == (7, 9, ["kotlin"])
        assert found["commit"] == COMMIT
        [asked] = [one for one in knowledge.requests if one.content_ref and one.content_ref.key == reference["key"]]
        assert asked.content is None
        until(lambda: played.jobs()[name].spec.ttl_seconds_after_finished == 600, "its Job is left to expire")
        assert "CodeAnalysis" not in space.conditions("cpg").values()
        assert operator.metric("jervis_operator_code_analyses_total") == 2
        assert len(space.every()) == before + 1


def test_no_end_of_a_job_is_the_end_of_its_task(space: Space, place: Place, played: Played) -> None:
    ended: dict[str, tuple[dict[str, tuple[int, str, Any]], str]] = {
        "OutOfMemory": ({"clone": (0, "", ""), "joern": (137, "OOMKilled", ""), "report": (0, "", "")}, "JobFailed"),
        "CloneFailed": (
            {"clone": (1, "Error", {"failure": {"reason": "CloneFailed", "message": "no branch x"}})},
            "BackoffLimitExceeded",
        ),
        "JoernFailed": (
            {"clone": (0, "", ""), "report": (0, "", {"failure": {"reason": "JoernFailed", "message": "m" * 5000}})},
            "",
        ),
        "LanguagesMissing": ({"report": (0, "", {"commit": COMMIT, "cpg": {"missing": ["kotlin"]}})}, ""),
        "ReportUnreadable": ({"report": (0, "", {"commit": "not hexadecimal", "cpg": {"methods": -1}})}, ""),
        "ReportIncomplete": ({"report": (0, "", "no JSON at all")}, ""),
        "DeadlineExceeded": ({}, "DeadlineExceeded"),
    }
    with place.begin(JOERN_MAX_JOBS=20) as operator:
        jobs = {reason: submit(space, reason.lower(), ["Cpg"]) for reason in ended}
        lost = submit(space, "lost", ["Cpg"], content="INFO")
        submit(space, "elsewhere", ["Cpg"], git={"connection": "other", "analysis": ["Cpg"]})
        until(lambda: {*jobs.values(), lost} == set(played.jobs()), "each has its Job, but the one without repository")
        until(lambda: all(space.status(one.lower())["git"].get("jobUid") for one in jobs), "which are recorded")
        until(lambda: "jobUid" in space.status("lost")["git"], "all of them")
        for reason, (pod, why) in ended.items():
            if pod:
                played.pod(jobs[reason], pod)
            played.end(jobs[reason], why)
        played.delete(lost)
        for reason in ended:
            until(lambda: space.phase(reason.lower()) == "Done", f"the task goes on after {reason}")  # noqa: B023
            assert analyzed(space, reason.lower())[:2] == ("False", reason)
            assert space.status(reason.lower())["result"]["summary"] == analyzed(space, reason.lower())[2]
        assert "Raise joern.memory" in analyzed(space, "outofmemory")[2]
        assert "no branch x" in analyzed(space, "clonefailed")[2]
        until(lambda: analyzed(space, "lost")[:2] == ("False", "JobLost"), "the deleted one is not made again")
        until(lambda: space.phase("lost") == "Done", "its content is read all the same")
        assert lost not in played.jobs()
        status, reason, message = analyzed(space, "elsewhere")
        assert (status, reason) == ("Unknown", "ConnectionNotFound")
        assert "no Git Connection other" in message
        assert operator.metric("jervis_operator_code_jobs") == 0


def test_never_more_jobs_than_allowed_and_none_twice(space: Space, place: Place, played: Played, start: Start) -> None:
    with place.begin() as operator:
        first = submit(space, "first", ["Cpg"])
        until(lambda: "jobUid" in space.status("first").get("git", {}), "the first one's Job")
        second = submit(space, "second", ["Structure"])
        until(lambda: analyzed(space, "second")[1] == "Waiting", "the other one waits")
        operator.kill()
    assert list(played.jobs()) == [first]
    uid = played.jobs()[first].metadata.uid
    # As after a kill before the Job was recorded, and before its Secret was written.
    space.edit_status("first", {"git": {"jobUid": None}})
    space.core.delete_namespaced_secret(first, space.name)
    with place.begin():
        until(lambda: space.status("first")["git"].get("jobUid") == uid, "the same Job is found")
        assert "token" in played.secret(first)
        assert list(played.jobs()) == [first]
        space.delete("first")
        until(lambda: list(played.jobs()) == [second], "the Job of a deleted task goes, and its place is free")
        pod = played.jobs()[second].spec.template.spec
        assert [one.name for one in (*pod.init_containers, *pod.containers)] == ["clone", "report"]


def test_without_joern_the_rest_is_made_and_the_condition_says_so(space: Space, place: Place, played: Played) -> None:
    with place.begin(JOERN_ENABLED=False):
        submit(space, "only", ["Cpg"])
        both = submit(space, "both", ["Structure", "Cpg"])
        until(lambda: space.phase("only") == "Done", "there is no Job for what cannot be made")
        assert analyzed(space, "only")[:2] == ("False", "Disabled")
        until(lambda: "jobUid" in space.status("both").get("git", {}), "the other one has a Job")
        assert list(played.jobs()) == [both]
        report = {"commit": COMMIT, "repository": "acme/storage", "branch": "main", "structure": {"files": 3}}
        played.pod(both, {"clone": (0, "", ""), "report": (0, "", report)})
        played.end(both)
        until(lambda: space.phase("both") == "Done", "the task goes on")
        status, reason, message = analyzed(space, "both")
        assert (status, reason) == ("False", "Disabled")
        assert "3 files" in message
        assert "joern.enabled" in message


def _refused(place: Place, token: str) -> str:
    """The status of an effect with that token."""
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST"]
    effect = f"{place.url}/api/v1/effects/addComment"
    said = subprocess.run(
        [*command, "-H", f"Authorization: Bearer {token}", "-d", "{}", effect], check=True, capture_output=True
    )
    return said.stdout.decode()


def _store(knowledge: Knowledge, body: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(body).hexdigest()
    knowledge.stored[digest] = body
    return {"store": "gridfs", "key": digest, "sha256": digest, "bytes": len(body)}


async def test_an_ad_hoc_query_has_one_job_and_one_end(
    space: Space, place: Place, played: Played, mongodb_uri: str, database: Any
) -> None:
    """The knowledge base's routes of queries are served by the test's loop."""
    opened, numbers = mongo.Database(mongodb_uri, database_name(space)), itertools.count()
    rows = joern_queries.Queries(opened, _now, lambda: f"query{next(numbers)}")
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    loop = asyncio.get_running_loop()
    async with served(analyze.Analyze(rows, allowed=True), _now, meters) as http:
        kb = client.Client(str(http.base_url), http)

        def ask(connection: str) -> api.CodeAnswer:
            where = scope.Scope(client_id="acme")
            asked = api.CodeQuery(scope=where, namespace=space.name, connection=connection, query="cpg.all.size")
            return asyncio.run_coroutine_threadsafe(kb.analyze.ask(asked), loop).result(waiting.PATIENCE)

        def row(id_: str) -> dict[str, Any]:
            return dict(database[joern_queries.COLLECTION].find_one({"_id": id_}))

        def play() -> None:
            with place.begin(KB_URL=str(http.base_url), JOERN_AD_HOC_QUERIES=True) as operator:
                first, other = ask("code").id, ask("nothing").id
                name = f"code-query-{first}"
                until(lambda: row(first)["jobUid"] != "", "its Job is made and recorded")
                assert list(played.jobs()) == [name]
                assert played.secret(name)["query"] == "cpg.all.size"
                assert row(other)["state"] == "Waiting"
                operator.kill()
            database[joern_queries.COLLECTION].update_one({"_id": first}, {"$set": {"jobUid": ""}})
            with place.begin(KB_URL=str(http.base_url), JOERN_AD_HOC_QUERIES=True):
                until(lambda: row(first)["jobUid"] != "", "the same one is found after a kill")
                assert list(played.jobs()) == [name]
                played.pod(name, {"clone": (0, "", ""), "joern": (137, "OOMKilled", ""), "report": (0, "", "")})
                played.end(name, "BackoffLimitExceeded")
                until(lambda: row(first)["state"] == "Failed", "its end is said, which its pod could not")
                assert row(first)["reason"] == "OutOfMemory"
                assert "joern.memory" in row(first)["message"]
                until(lambda: row(other)["state"] == "Failed", "and the next one has its turn")
                assert row(other)["reason"] == "ConnectionNotFound"
                assert list(played.jobs()) == [name]

        await asyncio.to_thread(play)
    await opened.close()


def _now() -> datetime:
    return datetime.now(UTC)
