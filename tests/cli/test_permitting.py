"""`--permit` and `--propose` of `submit` and `ask`: what a task may do without asking, as a person has confirmed it."""

from __future__ import annotations

import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import proposing
from crds import permits
from crds.permits import Permit
from tests.cli import site
from tests.fakes.ollama import process

ORDER = "Schreib Ann (ann@example.com), dass die Platte getauscht ist. Schlie\u00dfe acme/shop#13."
EFFECTS = [
    {
        "sentence": "Schreib Ann (ann@example.com), dass die Platte getauscht ist.",
        "tool": "sendMail",
        "targets": ["ann@example.com"],
        "times": 1,
    },
    {"sentence": "Close the issue.", "tool": "updateIssue", "targets": ["acme/shop#13"], "times": 1},
    {"sentence": "", "tool": "sendMail", "targets": ["eve@evil.example"], "times": 5},
]
MAIL, ISSUE, EVE = (
    {"tool": "sendMail", "targets": ["ann@example.com"], "most": 1, "mayShare": False},
    {"tool": "updateIssue", "targets": ["acme/shop#13"], "most": 1, "mayShare": False},
    {"tool": "sendMail", "targets": ["eve@evil.example"], "most": 5, "mayShare": False},
)


@pytest.fixture(scope="module")
def fake() -> Iterator[process.Fake]:
    with process.running() as simulator:
        yield simulator


def proposes(fake: process.Fake, *answers: object) -> list[str]:
    """Script the model; the flags that lead a command there."""
    said = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
    fake.set_script({"cli.permits/v1": said})
    return ["--propose", "--router", fake.url, "--model", "qwen2.5:7b"]


def made(place: site.Site) -> dict[str, Any]:
    [name] = place.names()
    return dict(place.get(name)["spec"])


@pytest.mark.apiserver
def test_permits_of_flags_are_those_of_the_task(place: site.Site, call: site.Call) -> None:
    permit = "tool=sendMail targets=ann@example.com,*@example.com most=2 notAfter=2026-12-31"
    call("ask", ORDER, "--client", "acme", "--permit", permit, "--permit", "tool=mcp:crm.add_note").succeeded()
    assert made(place)["permits"] == [
        {**MAIL, "targets": ["ann@example.com", "*@example.com"], "most": 2, "notAfter": "2026-12-31T00:00:00Z"},
        {"tool": "mcp:crm.add_note", "targets": [], "most": 1, "mayShare": False},
    ]
    [name] = place.names()
    shown = call("get", name).succeeded().out
    assert "tool=sendMail targets='ann@example.com,*@example.com' most=2" in shown


@pytest.mark.apiserver
def test_a_permit_that_is_none_is_named_before_there_is_a_task(
    place: site.Site, call: site.Call, tmp_path: Path
) -> None:
    file = tmp_path / "order.txt"
    file.write_text(ORDER)
    for flags in (["ask", ORDER], ["submit", str(file)]):
        call(*flags, "--client", "acme", "--permit", "tool=sendMial").refused("tool: 'sendMial' must be one of")
        call(*flags, "--client", "acme", "--confirmed").refused("--confirmed goes with --propose")
    assert place.names() == []


@pytest.mark.apiserver
def test_without_a_terminal_nothing_is_proposed_unless_a_flag_takes_it(
    place: site.Site, call: site.Call, fake: process.Fake, tmp_path: Path
) -> None:
    flags = proposes(fake, {"effects": EFFECTS})
    fake.forget()
    call("ask", ORDER, "--client", "acme", *flags).refused("there is no terminal")
    assert (place.names(), fake.count(path="/api/chat")) == ([], 0)
    file = tmp_path / "order.txt"
    file.write_text(ORDER)
    done = call(
        "submit", str(file), "--client", "acme", "--permit", "tool=fetchPage", *flags, "--confirmed"
    ).succeeded()
    assert made(place)["permits"] == [
        {"tool": "fetchPage", "targets": [], "most": 1, "mayShare": False},
        MAIL,
        ISSUE,
        EVE,
    ]
    first, second, third = (line for line in done.err.splitlines() if line[:1].isdigit())
    assert "Schreib Ann (ann@example.com), dass die Platte getauscht ist." in first
    assert "(no sentence of the text)" in second, "a model's own words are none"
    assert "NOT IN THE TEXT: eve@evil.example" in third
    assert "NOT IN" not in first + second


@pytest.mark.apiserver
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("yes\n", [MAIL, ISSUE, EVE]),
        ("what\n4\n0\n1,2\n", [MAIL, ISSUE]),
        ("none\n", []),
        ("\x04", "no task"),
    ],
)
def test_a_person_confirms_what_is_proposed(
    place: site.Site,
    call: site.Call,
    fake: process.Fake,
    monkeypatch: pytest.MonkeyPatch,
    answers: str,
    expected: Any,
) -> None:
    flags = proposes(fake, {"effects": EFFECTS})
    master, terminal = pty.openpty()
    os.write(master, answers.encode())
    with open(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        done = call("ask", ORDER, "--client", "acme", *flags)
    os.close(master)
    if expected == "no task":
        assert (done.code != 0, place.names()) == (True, [])
    else:
        assert made(place).get("permits") == expected, done.err


@pytest.mark.apiserver
def test_a_model_that_gives_no_proposal_makes_no_task(place: site.Site, call: site.Call, fake: process.Fake) -> None:
    flags = [*proposes(fake, "I would send a mail.", "{}", "no"), "--confirmed"]
    call("ask", ORDER, "--client", "acme", *flags).refused("proposes nothing that can be used")
    assert place.names() == []
    flags = [*proposes(fake, {"effects": []}), "--confirmed"]
    done = call("ask", ORDER, "--client", "acme", *flags).succeeded()
    assert "orders no effect" in done.err
    assert made(place)["permits"] == []


def test_each_tool_that_a_permit_can_name_is_explained_to_the_model() -> None:
    assert sorted(proposing._MEANS) == sorted(permits.TOOLS)


PROPOSALS = [proposing.Proposal(Permit(tool=tool)) for tool in ("sendMail", "editPage")]


@pytest.mark.parametrize(
    ("answer", "tools"),
    [
        ("y", ["sendMail", "editPage"]),
        (" YES ", ["sendMail", "editPage"]),
        ("none", []),
        ("2", ["editPage"]),
        ("2, 1,2", ["sendMail", "editPage"]),
        *((answer, None) for answer in ("", "3", "0", "1;2", "-1", "maybe", "\u00b2")),
    ],
)
def test_answers_of_a_person(answer: str, tools: list[str] | None) -> None:
    taken = proposing.chosen(answer, PROPOSALS)
    assert (None if taken is None else [permit.tool for permit in taken]) == tools
