"""What each agent is asked in a whole run, what its model does, and what must be true afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.orchestrator_job.office import ASK, CONTRACT, PLAN

COMMIT = "{commit}"
"""Stands for the last commit of the task's workspace."""
NO_SANDBOX = "No sandbox is configured, so commands cannot be run."


@dataclass(frozen=True)
class Call:
    """A call of the model; `said` stands in what it is answered."""

    tool: str
    said: str
    arguments: Mapping[str, Any]


def call(tool: str, said: str, /, **arguments: Any) -> Call:
    return Call(tool, said, arguments)


@dataclass(frozen=True)
class Part:
    """One delegation: a call in each turn, then the report. `subs` are those that it delegates in turn."""

    agent: str
    calls: tuple[Call, ...]
    report: str
    subs: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Held:
    """The call of a round that a person decides about, because of `why`: the last one of this tool."""

    tool: str
    why: str
    verdict: str = "Approved"


@dataclass(frozen=True)
class Round:
    """What the user says, and the plan: each part needs the one before it."""

    said: str
    parts: tuple[Part, ...]
    held: Held | None = None

    def all(self) -> tuple[Part, ...]:
        """With those that they delegate in turn."""
        return (*self.parts, *(sub for one in self.parts for sub in one.subs))

    def holds(self, part: Part) -> Call | None:
        """The call of the part that a person decides about."""
        held = [each for each in part.calls if self.held is not None and each.tool == self.held.tool]
        return held[-1] if held else None


@dataclass(frozen=True)
class Case:
    """`outside`: what is other than before at the Connections; `changed`: files of the last round; `artifacts`: how
    many it made; `sources`: those that the last report names."""

    agent: str
    rounds: tuple[Round, ...]
    outside: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    artifacts: int = 0
    sources: tuple[str, ...] = ()


def _case(
    agent: str, said: str, *calls: Call, report: str, held: Held | None = None, subs: tuple[Part, ...] = (), **more: Any
) -> Case:
    return Case(agent, (Round(said, (Part(agent, calls, report, subs),), held),), **more)


_SEARCH = call("search_knowledge", "13 March 2026", query="release of the router")
_OPEN = call("open_repository", "Open: code, branch main")
_EDIT = call("edit_file", "Changed: src/area.py.", path="src/area.py", old="w + h", new="w * h")
_EVENT = {
    "summary": "Release", "start": "2026-03-13T09:30:00", "end": "2026-03-13T10:00:00", "timeZone": "Europe/Prague",
    "organizer": "ann@acme.example", "attendees": ["bob@acme.example"],
}  # fmt: skip
_COMMIT = call("commit_changes", "Committed: ", message="Multiply")
_CODED = Part("Coding", (_OPEN, _EDIT), "The function area multiplies now.")
_COMMITTED = Part(
    "Git",
    (
        call("show_changes", "+    return w * h"),
        _COMMIT,
        call("ci_status", "Failed: unit (status, https://ci.example/unit)", branch="main"),
        call("commit_changes", "There is nothing to commit.", message="Multiply"),
    ),
    "It is committed.",
)
_PUSHED = Part(
    "Git",
    (
        call("push_branch", "among those that the settings allow", branch="main", commit=COMMIT),
        call("push_branch", "Done: pushBranch.", branch="jervis/area", commit=COMMIT),
        call("ci_status", "there is no such branch or commit", branch="jervis/area"),
    ),
    "The branch is pushed.",
)
_MAIL = {"subject": "Release", "text": "On Friday."}
_INVITATION = {
    "to": ["bob@acme.example"], "subject": "Invitation: release", "text": "Please come.", "event": _EVENT
}  # fmt: skip
_STEP = {"agent": "Administrative", "action": "Fill in the form.", "parameters": {"days": 3}}
_COFFEE = {"subject": "coffee", "content": "I like coffee without sugar.", "category": "preference"}

CASES = (
    _case(
        "Research",
        "Find out when the router is released and what https://docs.example.org/plan says about it.",
        _SEARCH,
        call("read_source", "Bob tests the failover", sourceUrn=PLAN),
        call("fetch_page", "A person has rejected this: not to them", url="https://docs.example.org/plan"),
        report=f"The release of the router is on Friday, 13 March 2026 [{PLAN}]. The page was not read.",
        held=Held("fetch_page", "No permit names fetchPage with docs.example.org.", "Rejected"),
        sources=(PLAN,),
    ),
    _case(
        "Coding",
        "Correct the function area in the repository code: it must multiply.",
        call("read_file", "is not open. Call open_repository.", path="src/area.py"),
        _OPEN,
        call("read_file", "return w + h", path="src/area.py"),
        call("edit_file", "stands 0 times", path="src/area.py", old="zz", new=""),
        _EDIT,
        call("run_command", NO_SANDBOX, argv=["pytest", "-q"]),
        _COMMIT,
        report="The function area multiplies now. The tests were not run.",
        changed=("src/area.py",),
    ),
    Case(
        "Git",
        (
            Round("Correct the function area in the repository code and commit it.", (_CODED, _COMMITTED)),
            Round(
                "Push it as the branch jervis/area.",
                (_PUSHED,),
                Held("push_branch", "No permit names pushBranch at code with jervis/area."),
            ),
        ),
        outside={"branches": ["jervis/area", "main"]},
    ),
    _case(
        "CodeReview",
        "Review src/area.py of the repository code and write what you find as a comment on issue #1.",
        _OPEN,
        call("search_files", "src/area.py:2:    return w + h", text="return w"),
        call("run_command", NO_SANDBOX, argv=["ruff", "check"]),
        call("add_comment", "Done: addComment.", issue="1", text="src/area.py:2 adds."),
        report="The function area adds in its second line. This stands in a comment.",
        outside={"comments": ["src/area.py:2 adds."]},
    ),
    _case(
        "Test",
        "Write a test for the function area in the repository code.",
        _OPEN,
        call("write_file", "Written: tests/test_area.py.", path="tests/test_area.py", content="def test_area(): ...\n"),
        call("write_file", "belongs to Git and is not opened.", path=".git/hooks/pre-commit", content="x"),
        call("run_command", NO_SANDBOX, argv=["pytest", "-q"]),
        report="There is a test for the function area. It was not run.",
        changed=("tests/test_area.py",),
    ),
    _case(
        "IssueTracker",
        "Create an issue about the backup in the repository o/r and say so in a comment on issue #1.",
        call("search_knowledge", "source: ", query="backup of the router"),
        call("create_issue", "that the settings allow", repository="o/other", title="Backup", text="It failed."),
        call("create_issue", "Done: createIssue.", repository="o/r", title="Backup", text="It failed."),
        call("add_comment", "Done: addComment.", repository="o/r", issue="1", text="There is an issue for it."),
        report="The issue was created and the comment was written.",
        outside={"issues": ["Old", "Backup"], "comments": ["There is an issue for it."]},
    ),
    _case(
        "Wiki",
        "Add the date of the release to page 42 of the wiki.",
        _SEARCH,
        call("edit_page", "page 'wiki/7' is not among those that the settings allow", page="7", text="On 13 March."),
        call("edit_page", "Done: editPage.", page="42", text="On 13 March."),
        report="The page has the date of the release now.",
        outside={"page": "<p>Old</p><p>On 13 March.</p>"},
    ),
    _case(
        "Documentation",
        "Write a page about the function area into the repository code, with the date of the release.",
        _OPEN,
        call("read_file", "return w + h", path="src/area.py"),
        call("delegate", "There is no agent 'Poet'", agent="Poet", task="Write it."),
        call("delegate", "It is on Friday.", agent="Research", task="Find the date of the release."),
        call("write_file", "Written: docs/area.md.", path="docs/area.md", content="# Area\n"),
        call("save_draft", "Stored 'area.md'", name="area.md", text="# Area"),
        report="The page about the function area is written.",
        subs=(Part("Research", (_SEARCH,), "It is on Friday."),),
        changed=("docs/area.md",),
        artifacts=1,
    ),
    _case(
        "DevOps",
        "Find out why the router does not start, and save a runbook.",
        call("cluster_state", "router: waiting (CrashLoopBackOff), 9 restarts", what=["pods", "events"], name="router"),
        call("cluster_state", "cluster_state: what.0: ", what=["secrets"]),
        call("cluster_state", "port 8080 is in use", log="router-1", previous=True),
        call("cluster_state", "log: ", log="../secrets"),
        call("ci_status", "Failed: commit 6dcb09b5b57875f334f61aebed695e2e4193db5e of o/r", branch="main"),
        call("search_knowledge", "Bob tests the failover", query="failover of the router"),
        call("save_draft", "Stored 'runbook.md'", name="runbook.md", text="1. Look at its log."),
        report="The router does not start: its port is in use. A runbook is saved as a draft.",
        artifacts=1,
    ),
    _case(
        "ProjectManagement",
        "Make an issue for the test of the router, with the sum of three and five days as its estimate.",
        call("calculate", "= 8", expression="3 + 5"),
        call("save_draft", "save_draft: name: ", name="a/b", text="Status"),
        call("create_issue", "Done: createIssue.", title="Test of the router", text="Eight days."),
        report="The issue was created with an estimate of eight days.",
        held=Held("create_issue", "No permit names createIssue at tracker."),
        outside={"issues": ["Old", "Test of the router"]},
    ),
    _case(
        "Security",
        "Look for secrets and vulnerable dependencies in the repository code.",
        _OPEN,
        call("scan_secrets", "secret.txt:1 AWS Access Key"),
        call("scan_dependencies", "No vulnerability data is mounted"),
        call("read_file", "is no path in the repository", path="../secret.txt"),
        call("save_draft", "Stored 'findings.md'", name="findings.md", text="A key in secret.txt."),
        report="There is a key in secret.txt. Nothing is known about the dependencies.",
        artifacts=1,
    ),
    _case(
        "Communication",
        "Announce the release of the router to those who have to know.",
        call("delegate", "three months", agent="Legal", task="Read the contract."),
        call("save_draft", "Stored 'announcement.md'", name="announcement.md", text="On Friday."),
        call("send_mail", "A person has rejected this: not to them", to=["x@evil.example"], **_MAIL),
        report="The announcement is saved as a draft. No mail was sent.",
        held=Held("send_mail", "No permit names sendMail at mail with x@evil.example.", "Rejected"),
        subs=(Part("Legal", (), "The notice period is three months."),),
        artifacts=1,
    ),
    _case(
        "Email",
        "Answer the question of Eve by a mail to eve@example.com.",
        call("read_source", "when is the release of the router?", sourceUrn=ASK),
        call("send_mail", "send_mail: to.0: ", to=["Eve <eve@example.com>"], **_MAIL),
        call("send_mail", "Done: sendMail.", to=["eve@example.com"], **_MAIL),
        report=f"Eve was answered by mail [{ASK}].",
        outside={"mails": [("eve@example.com", "Release")]},
        sources=(ASK,),
    ),
    _case(
        "Calendar",
        "Invite bob@acme.example to the release on 13 March 2026 from half past nine to ten.",
        call("draft_event", "end must be after start", **{**_EVENT, "end": "2026-03-13T09:00:00"}),
        call("draft_event", "Stored 'event.ics'", **_EVENT),
        call("send_invitation", "Done: sendMail.", **_INVITATION),
        report="Bob is invited to the release.",
        outside={"mails": [("bob@acme.example", "Invitation: release")]},
        artifacts=1,
    ),
    _case(
        "Administrative",
        "Fill in the form for the journey to the release of the router, and propose how we do this from now on.",
        call("read_procedures", "There is no such procedure.", about="journey"),
        call("calculate", "It was not calculated: it divides by zero.", expression="360 / 0"),
        call("calculate", "= 360", expression="3 * 120"),
        call("save_draft", "Stored 'form.md'", name="form.md", text="Journey: 360"),
        call("propose_procedure", "Saved as procedure ", triggerPattern="journey form", steps=[_STEP]),
        call("read_procedures", "1. Administrative: Fill in the form. (days: 3)", about="forms"),
        report="The form is filled in, and the procedure is saved.",
        held=Held("propose_procedure", "proposeProcedure always needs a person's approval."),
        artifacts=1,
    ),
    _case(
        "Legal",
        "Quote the notice period of the contract of the router.",
        call("search_knowledge", "three months", query="notice period of the contract"),
        call("read_source", "There is no document 'email::none'.", sourceUrn="email::none"),
        call("read_source", "The supplier delivers the router.", sourceUrn=CONTRACT),
        report=f'"The notice period of the contract is three months." [{CONTRACT}]',
        sources=(CONTRACT,),
    ),
    _case(
        "Financial",
        "Check the sum of the invoice: 1234.50 EUR and a fifth of it.",
        call("calculate", "different currencies", expression="a + b", values={"a": "1 EUR", "b": "1 CZK"}),
        call("calculate", "= 1481.40 EUR", expression="net * 1.2", values={"net": "1234.50 EUR"}, places=2),
        call("save_draft", "Stored 'invoice.md'", name="invoice.md", text="1481.40 EUR"),
        report="The sum of the invoice is 1481.40 EUR.",
        artifacts=1,
    ),
    _case(
        "Personal",
        "Remember about coffee: I like coffee without sugar.",
        call("user_context", "Nothing is known about the user."),
        call("store_knowledge", "category: ", subject="coffee", content="I like coffee.", category="secret"),
        call("store_knowledge", "Remembered: coffee.", **_COFFEE),
        call("user_context", "I like coffee without sugar."),
        report="This is remembered about coffee.",
    ),
    _case(
        "Learning",
        "Keep as a rule for this project that each answer names its sources.",
        call("search_knowledge", "source: ", query="rules of the router"),
        call("propose_rule", "propose_rule: content: ", key="citations", content="enforce: always-sing"),
        call("propose_rule", "Rule learned.citations is in force", key="citations", content="Name the sources."),
        report="The rule is in force from now on.",
        held=Held("propose_rule", "proposeRule always needs a person's approval."),
    ),
    _case(
        "LegacyAgent",
        "Correct the function area in the repository code and say so in a comment on issue #1.",
        call("search_knowledge", "source: ", query="function area"),
        _OPEN,
        _EDIT,
        call("delegate", "There is no tool 'delegate'", agent="Test", task="Test it."),
        call("cluster_state", "router-1: Running, 0/1 ready"),
        call("run_command", NO_SANDBOX, argv=["pytest", "-q"]),
        call("add_comment", "Done: addComment.", issue="1", text="It is corrected."),
        report="The function area multiplies now, and a comment says so.",
        outside={"comments": ["It is corrected."]},
        changed=("src/area.py",),
    ),
)
