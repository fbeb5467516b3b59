"""Agents in a release of their own: a failing test is corrected on a branch, a mail is answered, an issue is filed. In
another one an order looks at its namespace.

The models are scripted. Git, the tracker, the mailboxes, the knowledge base, the sandbox, the approvals and what the
namespace shows are real.
"""

from __future__ import annotations

import base64
import dataclasses
import email
import email.policy
import os
import re
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
from tests import thorough
from tests.e2e import tokens
from tests.e2e.conftest import NAMESPACE, VALUES
from tests.e2e.simulator import Simulator
from tests.e2e.site import Site
from tests.orchestrator_job import job
from tests.orchestrator_job.run.test_delegation_runs import PLAN, SYNTHESIS, planned
from tests.orchestrator_job.run.test_goal_runs import GOALS, LEGACY, STEPS, goal, steps
from tests.orchestrator_job.workbench import calls, report
from tests.waiting import until

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
_STATE, _STATE_DATABASE = f"{NAMESPACE}-state", "jervis_state"
_WORD = "hunter2-of-this-test"
"""The content of a Secret."""
_LITERAL = "literal-of-this-test"
"""A value that stands in the specification of a pod."""


@dataclasses.dataclass(frozen=True)
class Place:
    """The release and its simulated models."""

    site: Site
    gpu: Simulator
    client: str

    def ask(self, name: str, content: str, **more: Any) -> None:
        """A task of the client's project; `more` fields of its spec."""
        spec = {"type": "UserTask", "projectId": settings.PROJECT, "content": content, **more}
        self.site.apply(name, {name: spec}, self.client)

    def held(self, name: str) -> PendingTask:
        """Once it waits for a person."""
        return self.site.ends(name, {name: Phase.USER_TASK}, seconds=240)[name]

    def approve(self, name: str) -> None:
        """As a person does."""
        program = [sys.executable, "-m", "cli", "approve", name, "--all"]
        subprocess.run(program, env={**self.site.kubectl.environment, "KUBECONFIG": self._context()}, check=True)

    def done(self, name: str) -> dict[str, Any]:
        """Its one result, once it is completed."""
        task = self.site.ends(name, {name: Phase.COMPLETED}, seconds=240)[name]
        [result] = self.site.results(task)
        return result

    def trace(self, name: str) -> tuple[str, list[list[str]]]:
        """What `kubectl jervis trace` prints: its first line, and the cells of each row."""
        program = [sys.executable, "-m", "cli", "trace", name]
        environment = {**self.site.kubectl.environment, "KUBECONFIG": self._context()}
        said = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        head, _, _, *rows = said.splitlines()
        return head, [re.split(" {2,}", row.strip()) for row in rows]

    def _context(self) -> str:
        return str(context.write(self.site.wanted, self.site.kubectl))


@dataclasses.dataclass(frozen=True)
class Office(Place):
    """With the servers that its Connections name."""

    there: servers.Servers


@pytest.fixture
def office(site: Site, owner: str, there: servers.Servers, services: httpx.Client) -> Iterator[Office]:
    """A release with agents, tools and a sandbox, beside that of all tests; what the Connections name is planted."""
    wanted = dataclasses.replace(site.wanted, namespace=_NAMESPACE)
    cluster = Kubectl(site.kubectl.program, site.kubectl.kubeconfig, _NAMESPACE)
    report_ = progress.Progress()
    database = site.database.client[_DATABASE]
    try:
        connected.trust(cluster, layout.from_environment())
        # So that a command in the sandbox, which has none, is answered nothing.
        cluster.apply(tokens.secrets())
        release.install(wanted, cluster, report_, _values(wanted))
        cluster.run("wait", "--for=condition=Ready", "gpubackends", "--all", "--timeout=60s", seconds=90)
        _plant(there)
        client = f"{owner}-agents"
        cluster.apply(_connections(there, client))
        here = httpx.Client(base_url=str(services.base_url).replace(f"/{NAMESPACE}/", f"/{_NAMESPACE}/"), timeout=60)
        with here:
            own = dataclasses.replace(site, kubectl=cluster, wanted=wanted, database=database)
            yield Office(own, Simulator(here, "jervis-ollama-gpu"), client, there)
    finally:
        if not os.environ.get("JERVIS_E2E_KEEP"):
            release.remove(wanted, cluster, report_)
            database.client.drop_database(_DATABASE)


def _values(wanted: settings.Settings) -> dict[str, Any]:
    own = {
        "mongodb": {"database": _DATABASE},
        "kb": {
            "settings": {"index": "agents"},
            "terminationGracePeriodSeconds": 5,
            "tokens": tokens.VALUES,
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

    until(look, "the Connections are read")


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
                report("The push waits for a person."),
                report("The branch is pushed."),
            ],
            SYNTHESIS: [job.reply(answer="The test passes on the branch jervis/area.", citations=[])],
        }
    )
    name = "failing-test"
    office.ask(name, f"Fix the failing test in the repository {_REPOSITORY} and push it as the branch {_BRANCH}.")
    asked = office.held(name).status.user_task
    assert asked is not None
    [effect] = asked.effects
    assert effect.tool == "pushBranch"
    assert "+    return w * h" in effect.shown, "the person sees the diff"
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
                report("The mail waits for a person."),
                report("The mail was sent."),
            ],
            SYNTHESIS: [job.reply(answer="Eve was answered [1].", citations=[1])],
        }
    )
    name = "answer-mail"
    office.ask(name, f"Answer the mail {_ASKED.urn} from what we know.")
    asked = office.held(name).status.user_task
    assert asked is not None
    assert [effect.tool for effect in asked.effects] == ["sendMail"]
    with office.there.inbox("eve@example.com") as client:
        assert client.search(None, "ALL")[1] == [b""]
    office.approve(name)
    result = office.done(name)
    assert len(result["artifacts"]) == 1
    [sent] = until(lambda: _mails(office.there, "eve@example.com"), "the mail is in Eve's mailbox")
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
    permits = [{"tool": "createIssue", "targets": [_REPOSITORY]}]
    office.ask(name, f"Create an issue in {_REPOSITORY}: the area of a circle is missing.", permits=permits)
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


# -- an order, and the state of its namespace --------------------------------------------------------------------------


@pytest.fixture
def state(site: Site, services: httpx.Client) -> Iterator[Place]:
    """A release whose runs see the state and the logs of its namespace, which holds a Secret and two pods that have
    it: one that never starts, and one that has written it. It has no Connections."""
    wanted = dataclasses.replace(site.wanted, namespace=_STATE)
    cluster = Kubectl(site.kubectl.program, site.kubectl.kubeconfig, _STATE)
    report_ = progress.Progress()
    database = site.database.client[_STATE_DATABASE]
    own = {
        "mongodb": {"database": _STATE_DATABASE},
        "kb": {"settings": {"index": "state"}, "terminationGracePeriodSeconds": 5},
        "router": {"terminationGracePeriodSeconds": 5},
        "watchNamespaceSelector": {"matchLabels": {"jervis.dev/e2e": "tenant-of-state"}},
        "sources": {"enabled": False},
        "models": {"planner": ""},
        "agents": {"clusterState": {"enabled": True, "namespaces": [_STATE], "logNamespaces": [_STATE]}},
    }
    try:
        release.install(wanted, cluster, report_, release.overlaid(VALUES, own))
        cluster.run("wait", "--for=condition=Ready", "gpubackends", "--all", "--timeout=60s", seconds=90)
        cluster.apply(_shown_pods(images.chosen(wanted)[0]))
        here = httpx.Client(base_url=str(services.base_url).replace(f"/{NAMESPACE}/", f"/{_STATE}/"), timeout=60)
        with here:
            made = dataclasses.replace(site, kubectl=cluster, wanted=wanted, database=database)
            yield Place(made, Simulator(here, "jervis-ollama-gpu"), f"e2e-{_STATE}")
    finally:
        if not os.environ.get("JERVIS_E2E_KEEP"):
            release.remove(wanted, cluster, report_)
            database.client.drop_database(_STATE_DATABASE)


def _shown_pods(image: str) -> list[dict[str, Any]]:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault"}, "stringData": {"word": _WORD}}
    environment = [
        {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "word"}}},
        {"name": "LITERAL", "value": _LITERAL},
    ]
    says = ["python", "-c", "import os; print('password=' + os.environ['WORD']); print('It has started.')"]

    def pod(name: str, pulled: str, pulls: str, command: list[str]) -> dict[str, Any]:
        locked = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        container = {
            "name": name, "image": pulled, "imagePullPolicy": pulls, "command": command, "env": environment,
            "securityContext": locked, "resources": {"limits": {"memory": "128Mi"}},
        }  # fmt: skip
        secured = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {
            "containers": [container], "restartPolicy": "Never", "automountServiceAccountToken": False,
            "securityContext": secured,
        }  # fmt: skip
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    broken = pod("broken", "localhost/there-is-none:dev", "Never", ["true"])
    return [secret, broken, pod("talker", image, "IfNotPresent", says)]


def _waits(state: Place) -> None:
    """The one pod has ended, and the other one has been found to be without an image."""

    def look() -> bool:
        found = {one["metadata"]["name"]: one["status"] for one in state.site.kubectl.items("pods")}
        waiting = [one.get("state", {}).get("waiting", {}) for one in found["broken"].get("containerStatuses", ())]
        return found["talker"]["phase"] == "Succeeded" and [one.get("reason") for one in waiting] == [
            "ErrImageNeverPull"
        ]

    until(look, "the pods are as they stay")


@thorough.only
def test_an_order_looks_at_its_namespace_and_is_traced(state: Place) -> None:
    """An order of a user on the legacy graph: goals, one step, and the tool of the agent that does it."""
    _waits(state)
    found = "The pod broken has no image; it was never there."
    state.gpu.script(
        {
            GOALS: [{"goals": [goal("Pods")]}],
            STEPS: [steps("Say which pods do not run.")],
            LEGACY: [
                calls(("cluster_state", {})),
                calls(("cluster_state", {"what": ["pods"], "name": "broken"})),
                calls(("cluster_state", {"log": "talker"})),
                calls(("cluster_state", {"what": ["secrets"]})),
                report(found),
            ],
        }
    )
    name = "migrate-services"
    state.ask(name, "Migrate all services to the new node, and say which pods do not run.")
    result = state.done(name)
    assert (result["taskCategory"], result["answer"]) == ("epic", found)
    assert result["goals"] == [{"title": "Pods", "state": "done"}]

    asked = [one["body"]["messages"] for one in state.gpu.requests(tag=LEGACY)]
    # The latest answer of each request: the ones before may have given way to it.
    whole, broken, log, refused = [one[-1]["content"] for one in asked[1:]]
    assert f"Namespace {_STATE}" in whole
    assert "- Deployment jervis-operator, desired: 1, ready: 1" in whole
    assert "- broken: Pending" in broken
    assert "container broken: waiting (ErrImageNeverPull), 0 restarts" in broken
    assert "talker" not in broken
    assert "Log of pod talker" in log
    assert "It has started." in log
    assert "secrets" not in whole
    assert "what.0: Input should be" in refused, "there is no such part"
    # Neither a Secret nor what a pod was given has reached a model, or what is stored of the run.
    encoded = base64.b64encode(_WORD.encode()).decode()
    kept = [state.site.database[one].find({}) for one in ("orchestrator_journal", "orchestrator_artifacts")]
    everywhere = f"{asked}{state.gpu.requests()}{[list(one) for one in kept]}{result}"
    assert not [one for one in (_WORD, encoded, _LITERAL) if one in everywhere]
    account = f"system:serviceaccount:{_STATE}:jervis-operator"
    for verb in ("list", "watch"):
        may = state.site.kubectl.attempt("auth", "can-i", verb, "secrets", f"--as={account}").stdout
        assert may.startswith("no"), verb

    head, rows = state.trace(name)
    assert head.startswith(f"{_STATE}/{name}: run 1, round 1, 7 model calls, ")
    assert [(row[1], row[2]) for row in rows] == [
        (each, "COMPLETED")
        for each in (
            *("intake", "evidence", "goals", "plan_steps", "LegacyAgent", "evaluate", "respond", "approve", "finalize"),
        )
    ]
    [step] = [row for row in rows if row[1] == "LegacyAgent"]
    assert (step[0], step[2], step[5], step[6], step[8]) == ("r1.d1", "COMPLETED", "5", "4", "0.90")
