"""Agents in a release of their own: a failing test is corrected on a branch, a mail is answered, an issue is filed.

The models are scripted. Git, the tracker, the mailboxes, the knowledge base, the sandbox and the approvals are real.
"""

from __future__ import annotations

import base64
import dataclasses
import email
import email.policy
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from crds.pendingtask import PendingTask
from crds.phases import Phase
from hack.cluster import layout, progress
from hack.demo import connected, context, images, planted, release, servers, settings
from hack.demo.kubectl import Kubectl
from tests.e2e.conftest import NAMESPACE, VALUES
from tests.e2e.simulator import Simulator
from tests.e2e.site import Site
from tests.e2e.waiting import until
from tests.orchestrator_job import job
from tests.orchestrator_job.delegation.test_runs import PLAN, SYNTHESIS, planned
from tests.orchestrator_job.delegation.workbench import calls, report

_NAMESPACE, _DATABASE = f"{NAMESPACE}-agents", "jervis_agents"
_REPOSITORY, _BRANCH = "platform/parts", "jervis/area"
_TEST = "import unittest\n\nfrom area import area\n\n\nclass Area(unittest.TestCase):\n    def test_area(self):\n"
_FILES = {
    "area.py": "def area(w, h):\n    return w + h\n",
    "test_area.py": f"{_TEST}        self.assertEqual(area(2, 3), 6)\n",
}
_ASKED = planted.Mail(
    "asked-by-eve@example.com", "Eve <eve@example.com>", "Who is on call?",
    "For your information only.\n\nEve wants to know who is on call for the storage cluster in week 49.\n",
)  # fmt: skip
_ANSWER = f"{planted.FIRST} is on call for the storage cluster in week 49."
_TESTS = ["python", "-m", "unittest", "-q"]


@dataclasses.dataclass(frozen=True)
class Office:
    """The release, its simulated models and the servers that its Connections name."""

    site: Site
    gpu: Simulator
    there: servers.Servers
    client: str

    def ask(self, name: str, content: str) -> None:
        """A task of the client's project."""
        self.site.apply(
            name, {name: {"type": "UserTask", "projectId": settings.PROJECT, "content": content}}, self.client
        )

    def held(self, name: str) -> PendingTask:
        """Once it waits for a person."""
        return self.site.ends(name, {name: Phase.USER_TASK}, seconds=240)[name]

    def approve(self, name: str) -> None:
        """As a person does."""
        program = [sys.executable, "-m", "cli", "approve", name]
        subprocess.run(program, env={**self.site.kubectl.environment, "KUBECONFIG": self._context()}, check=True)

    def done(self, name: str) -> dict[str, Any]:
        """Its one result, once it is completed."""
        task = self.site.ends(name, {name: Phase.COMPLETED}, seconds=240)[name]
        [result] = self.site.results(task)
        return result

    def _context(self) -> str:
        return str(context.write(self.site.wanted, self.site.kubectl))


@pytest.fixture
def office(site: Site, owner: str, there: servers.Servers, services: httpx.Client) -> Iterator[Office]:
    """A release with agents, tools and a sandbox, beside that of all tests; what the Connections name is planted."""
    wanted = dataclasses.replace(site.wanted, namespace=_NAMESPACE)
    cluster = Kubectl(site.kubectl.program, site.kubectl.kubeconfig, _NAMESPACE)
    report_ = progress.Progress()
    database = site.database.client[_DATABASE]
    try:
        connected.trust(cluster, layout.from_environment())
        cluster.apply(_tokens())
        release.install(wanted, cluster, report_, _values(wanted))
        cluster.run("wait", "--for=condition=Ready", "gpubackends", "--all", "--timeout=60s", seconds=90)
        _plant(there)
        client = f"{owner}-agents"
        cluster.apply(_connections(there, client))
        here = httpx.Client(base_url=str(services.base_url).replace(f"/{NAMESPACE}/", f"/{_NAMESPACE}/"), timeout=60)
        with here:
            own = dataclasses.replace(site, kubectl=cluster, wanted=wanted, database=database)
            yield Office(own, Simulator(here, "jervis-ollama-gpu"), there, client)
    finally:
        if not os.environ.get("JERVIS_E2E_KEEP"):
            release.remove(wanted, cluster, report_)
            database.client.drop_database(_DATABASE)


def _tokens() -> list[dict[str, Any]]:
    """The knowledge base asks for tokens, so that a command in the sandbox, which has none, is answered nothing."""
    token = "of-the-operator-of-this-test"
    known = {"name": "operator", "sha256": hashlib.sha256(token.encode()).hexdigest(), "write": True}
    table = json.dumps({"tokens": [{**known, "scopes": [{"clientId": "*"}]}]})
    held = {"jervis-kb-token": {"token": token}, "jervis-kb-tokens": {"tokens.yaml": table}}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        for name, data in held.items()
    ]


def _values(wanted: settings.Settings) -> dict[str, Any]:
    own = {
        "mongodb": {"database": _DATABASE},
        "kb": {
            "settings": {"index": "agents"},
            "terminationGracePeriodSeconds": 5,
            "tokens": {"existingSecret": {"name": "jervis-kb-tokens"}, "clientSecret": {"name": "jervis-kb-token"}},
        },
        "router": {"terminationGracePeriodSeconds": 5},
        "watchNamespaceSelector": {"matchLabels": {"jervis.dev/e2e": "tenant-of-agents"}},
        "networkPolicy": {"sources": {"ports": [servers.IMAPS, servers.SUBMISSIONS, servers.HTTPS]}},
        # All models of a run at one simulator, which has the script.
        "models": {"planner": ""},
        "sandbox": {"enabled": True, "images": {"python": images.chosen(wanted)[0]}, "memory": "512Mi"},
        "job": {
            "flags": {"useDelegationGraph": True, "useSpecialistAgents": True, "useDagExecution": True},
            "tools": {
                "gitConnection": "repository",
                "trackerConnection": "issues",
                "mailConnection": "mailbox",
                "mailRecipients": ["*@example.com"],
                "trackerRepositories": ["issues/", f"issues/{_REPOSITORY}"],
                "pushBranches": ["repository/jervis/*"],
            },
        },
    }
    return release.overlaid(release.overlaid(VALUES, connected.values()), own)


def _plant(there: servers.Servers) -> None:
    """A repository with a failing test, a mail that knows something and a mail that asks for it."""
    there.ask("POST", "user/repos", {"name": _REPOSITORY.rpartition("/")[2], "private": True, "default_branch": "main",
                                     "auto_init": True})  # fmt: skip
    files = [
        {"operation": "create", "path": path, "content": base64.b64encode(text.encode()).decode()}
        for path, text in _FILES.items()
    ]
    there.ask("POST", f"repos/{_REPOSITORY}/contents", {"branch": "main", "message": "Add area", "files": files})
    for mail in (planted.MAILS[0], _ASKED):
        there.put(mail.raw(datetime.now(UTC)))


def _connections(there: servers.Servers, client: str) -> list[dict[str, Any]]:
    """Those of the demonstration, which may also send, file and push here."""
    made = connected.manifests(there, client)
    by_name = {one["metadata"]["name"]: one for one in made}
    secret = by_name["mailbox"]["spec"]["secretRef"]
    by_name["mailbox"]["spec"]["smtp"] = {"url": there.outbox, "from": "platform@example.com", "secretRef": secret}
    by_name["issues"]["spec"]["url"] = f"{there.forge}/{_REPOSITORY}"
    by_name["repository"]["spec"] |= {
        "url": f"{there.forge}/{_REPOSITORY}.git",
        "git": {"push": {"branches": ["jervis/*"]}},
    }
    return made


def _agent(name: str) -> str:
    return f"job.agent.{name}/v1"


def _ready(office: Office) -> None:
    """All Connections have been polled, and the mails are known."""

    def look() -> bool:
        found = office.site.kubectl.items("connections")
        reasons = [one["reason"] for each in found for one in each.get("status", {}).get("conditions", ())
                   if one["type"] == "Ready"]  # fmt: skip
        ended = {one.spec.source_urn for one in office.site.kubectl.tasks() if one.status.phase is Phase.DONE}
        return reasons == ["Polled"] * 3 and {planted.MAILS[0].urn, _ASKED.urn} <= ended

    until("the Connections are read", look, seconds=120)


def _corrects_a_failing_test(office: Office) -> None:
    edit = {"path": "area.py", "old": "w + h", "new": "w * h"}
    push = calls(("push_branch", {"branch": _BRANCH, "commit": "COMMIT"}))
    office.gpu.script(
        {
            PLAN: [planned(("Coding", "Correct it.", []), ("Git", "Commit and push it.", [1]))],
            _agent("Coding"): [
                calls(("open_repository", {})),
                calls(("run_command", {"argv": _TESTS, "seconds": 60})),
                calls(("edit_file", edit)),
                calls(("run_command", {"argv": _TESTS, "seconds": 60})),
                report("The function multiplies now, and its test passes."),
            ],
            _agent("Git"): [
                calls(("commit_changes", {"message": "Multiply"})),
                {**push, "fill": {"COMMIT": "Committed: ([0-9a-f]{40})"}},
                report("The branch is pushed."),
            ],
            SYNTHESIS: [job.reply(answer="The test passes on the branch jervis/area.", citations=[])],
        }
    )
    name = "failing-test"
    office.ask(name, f"Fix the failing test in the repository {_REPOSITORY} and push it as the branch {_BRANCH}.")
    asked = office.held(name).status.user_task
    assert asked is not None
    assert asked.action is not None
    assert asked.action.tool == "push_branch"
    assert "+    return w * h" in str(asked.action), "the person sees the diff"
    branches = f"repos/{_REPOSITORY}/branches"
    assert [one["name"] for one in office.there.ask("GET", branches)] == ["main"]
    office.approve(name)
    result = office.done(name)
    assert result["changedFiles"] == ["area.py"]
    assert sorted(one["name"] for one in office.there.ask("GET", branches)) == [_BRANCH, "main"]
    raw = office.there.ask("GET", f"repos/{_REPOSITORY}/contents/area.py?ref={_BRANCH}")["content"]
    assert base64.b64decode(raw).decode() == _FILES["area.py"].replace("+", "*")
    # What the two commands said, each run once, in pods of the cluster.
    heard = [one["exitCode"] for one in office.site.database["sandbox_commands"].find(sort=[("requestedAt", 1)])]
    assert heard == [1, 0]


def _answers_a_mail(office: Office) -> None:
    mail = {"to": ["eve@example.com"], "subject": "Who is on call?", "text": _ANSWER,
            "inReplyTo": f"<{_ASKED.identity}>"}  # fmt: skip
    office.gpu.script(
        {
            PLAN: [planned(("Research", "Find out who is on call.", []), ("Email", "Answer Eve.", [1]))],
            _agent("Research"): [
                calls(("search_knowledge", {"query": planted.QUESTION})),
                report(f"{_ANSWER[:-1]} [{planted.MAILS[0].urn}]."),
            ],
            _agent("Email"): [
                calls(("read_source", {"sourceUrn": _ASKED.urn})),
                calls(("save_draft", {"name": "answer.md", "text": _ANSWER})),
                calls(("send_mail", mail)),
                report("The mail was sent."),
            ],
            SYNTHESIS: [job.reply(answer="Eve was answered [1].", citations=[1])],
        }
    )
    name = "answer-mail"
    office.ask(name, f"Answer the mail {_ASKED.urn} from what we know.")
    asked = office.held(name).status.user_task
    assert asked is not None
    assert asked.action is not None
    assert asked.action.tool == "send_mail", "its recipient stands in a mail alone"
    with office.there.inbox("eve@example.com") as client:
        assert client.search(None, "ALL")[1] == [b""]
    office.approve(name)
    result = office.done(name)
    assert len(result["artifacts"]) == 1
    [sent] = until("the mail is in Eve's mailbox", lambda: _mails(office.there, "eve@example.com"))
    assert sent["Subject"] == "Who is on call?"
    assert sent["In-Reply-To"] == f"<{_ASKED.identity}>"
    assert sent.get_content().strip() == _ANSWER


def _mails(there: servers.Servers, user: str) -> list[email.message.EmailMessage]:
    with there.inbox(user) as client:
        numbers = client.search(None, "ALL")[1][0].split()
        found = [client.fetch(number.decode(), "(RFC822)")[1][0] for number in numbers]
    raws = [one[1] for one in found if isinstance(one, tuple)]
    return [email.message_from_bytes(raw, policy=email.policy.default) for raw in raws]


def _files_an_issue(office: Office) -> None:
    issue = {"repository": _REPOSITORY, "title": "Area of a circle", "text": "It is missing."}
    office.gpu.script(
        {
            PLAN: [planned(("IssueTracker", "Create it.", []))],
            _agent("IssueTracker"): [calls(("create_issue", issue)), report("The issue was created.")],
        }
    )
    name = "file-an-issue"
    office.ask(name, f"Create an issue in {_REPOSITORY}: the area of a circle is missing.")
    assert office.done(name)["answer"] == "The issue was created."
    titles = [one["title"] for one in office.there.ask("GET", f"repos/{_REPOSITORY}/issues?type=issues")]
    assert titles == ["Area of a circle"]


def test_agents_work_where_the_team_works(office: Office) -> None:
    """One after another in one release, since its installation takes longest."""
    _ready(office)
    _corrects_a_failing_test(office)
    _answers_a_mail(office)
    _files_an_issue(office)
    done = office.site.database["delegation_metrics"].find({})
    assert {(one["agentName"], one["success"]) for one in done} == {
        (name, True) for name in ("Coding", "Git", "Research", "Email", "IssueTracker")
    }
