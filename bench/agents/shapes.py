"""Runs by seed: a plan of one to five delegations, what each agent's model says turn by turn, and what it must lead to.

The simulated model answers by what stands in its prompt: each turn of an agent waits for a mark that only the result of
the turn before brings. So a resumed loop is answered from wherever it stands, and a lost or a mixed-up result leaves a
prompt that the script does not know.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PLAN, SYNTHESIS, LEGACY = "job.plan_delegations/v1", "job.synthesize/v1", "LegacyAgent"
REPOSITORY, ISSUE, PAGE = "o/r", "7", "42"
EFFECTS = {"send_mail": "sendMail", "create_issue": "createIssue", "add_comment": "addComment", "edit_page": "editPage"}
"""Tools with an effect, by the name that the sources process has for them."""
_ACTS = {
    "Research": (),
    "Legal": (),
    "Email": ("send_mail",),
    "Wiki": ("edit_page",),
    "IssueTracker": ("create_issue", "add_comment"),
    "Communication": ("send_mail", "add_comment", "delegate"),
    "ProjectManagement": ("create_issue", "delegate"),
}
"""Agents, and what they do beside reading."""
_LARGE = 20_000
"""Characters of a result that the journal keeps beside its entries."""


@dataclass(frozen=True)
class Call:
    """A call of a tool. `mark` is what its result brings."""

    tool: str
    arguments: Mapping[str, Any]
    mark: str


@dataclass(frozen=True)
class Part:
    """One delegation. `turns` are calls, turn by turn; `doubts`: the first report is asked for once more; `gives_up`:
    the LegacyAgent does it."""

    name: str
    agent: str
    needs: tuple[int, ...]
    turns: tuple[tuple[Call, ...], ...]
    report: str
    subs: tuple[Part, ...] = ()
    doubts: bool = False
    gives_up: bool = False

    @property
    def task(self) -> str:
        """What the agent is asked, with the mark of its first turn."""
        return f"Do what is needed for {mark(self.name, 0)}."

    def sure(self) -> Part:
        """The same with reports that are taken as they are."""
        return replace(self, doubts=False, gives_up=False, subs=tuple(one.sure() for one in self.subs))

    def all(self) -> Iterator[Part]:
        """With those that it delegates in turn."""
        yield self
        for sub in self.subs:
            yield from sub.all()


@dataclass(frozen=True)
class Shape:
    """The run of a seed."""

    seed: int
    parts: tuple[Part, ...]
    found: Mapping[str, str] = field(default_factory=dict)
    """What the knowledge base has for a question."""

    @property
    def name(self) -> str:
        """Stands in each of its texts and in those of no other seed."""
        return f"s{self.seed:06d}"

    @property
    def content(self) -> str:
        """The task; `site.PERMITTED` allows what it leads to."""
        people = ", ".join(sorted({one.arguments["to"][0] for one in self.effects() if one.tool == "send_mail"}))
        return (
            f"Order {self.name}x: Find out what is open, check the contract, and then send it to"
            f" {people or 'me'} by mail; create issues in {REPOSITORY}, comment on issue {ISSUE} and add it to page"
            f" {PAGE}."
        )

    def all(self) -> Iterator[Part]:
        """Every delegation."""
        for one in self.parts:
            yield from one.all()

    def effects(self) -> list[Call]:
        """What must have happened outside, once each."""
        return [call for one in self.all() for turn in one.turns for call in turn if call.tool in EFFECTS]

    def wanted(self) -> list[tuple[str, str]]:
        """The same as (tool of the sources process, mark), sorted."""
        return sorted((EFFECTS[one.tool], one.mark) for one in self.effects())

    def plan(self) -> dict[str, Any]:
        """The answer of the planning model."""
        drafts = [
            {
                "agent": one.agent,
                "task": one.task,
                "expectedOutput": "",
                "constraints": [],
                "dependsOn": list(one.needs),
            }
            for one in self.parts
        ]
        return {"domain": "COMMUNICATION", "delegations": drafts}

    def answer(self) -> str:
        """The final answer that the model writes."""
        return f"All of {self.name} is done [1]."

    def script(self) -> dict[str, list[dict[str, Any]]]:
        """For the simulator: prompt tag -> answers, those to later turns first. The graph of `plain`, which judges no
        report, has prompts of its own and no doubts."""
        plainly = replace(self, parts=tuple(one.sure() for one in self.parts))._said()
        own = {tag.replace("job.", "plain.", 1).replace("_delegations", ""): one for tag, one in plainly.items()}
        return self._said() | own

    def _said(self) -> dict[str, list[dict[str, Any]]]:
        said: dict[str, list[dict[str, Any]]] = defaultdict(list)
        said[PLAN].append({"when": f"{self.name}x", "answer": self.plan()})
        written = {"answer": self.answer(), "citations": [1], "confidence": 0.9, "needsInput": False, "questions": []}
        said[SYNTHESIS].append({"when": f"{self.name}x", "answer": written})
        for one in self.all():
            tag = f"job.agent.{one.agent}/v1"
            for number, says in reversed(list(enumerate(_turns(one)))):
                # A prompt lists what other agents have done, which has their marks: its task says whose it is.
                said[tag].append({"when": [mark(one.name, 0), mark(one.name, number)], "answer": says})
            if one.gives_up:
                legacy = f"job.agent.{LEGACY}/v1"
                said[legacy].append({"when": mark(one.name, 0), "answer": _reported(f"{one.report} After all.")})
        return dict(said)


def mark(name: str, turn: int) -> str:
    """What a prompt contains from this turn of a part on."""
    return f"{name}t{turn}m"


def shape(seed: int) -> Shape:
    """The run of this seed; the same one each time."""
    chance = random.Random(f"shape {seed}")
    found: dict[str, str] = {}
    parts: list[Part] = []
    for number in range(1, chance.choice((1, 2, 3, 3, 4, 5)) + 1):
        needs = tuple(one for one in range(1, number) if chance.random() < 0.3)
        parts.append(_part(chance, f"s{seed:06d}p{number}", chance.choice(list(_ACTS)), needs, found, depth=1))
    return Shape(seed, tuple(parts), found)


def _part(
    chance: random.Random, name: str, agent: str, needs: tuple[int, ...], found: dict[str, str], depth: int
) -> Part:
    subs: list[Part] = []
    turns: list[tuple[Call, ...]] = []
    for number in range(chance.choice((0, 1, 1, 2, 3))):
        brings = mark(name, number + 1)
        marks = [*(f"{brings}.{place}" for place in range(chance.choice((0, 0, 1)))), brings]
        turns.append(tuple(_call(chance, name, agent, one, found, subs, depth) for one in marks))
    return Part(
        name,
        agent,
        needs,
        tuple(turns),
        f"What {name} was about is done.",
        tuple(subs),
        doubts=chance.random() < 0.15,
        gives_up=chance.random() < 0.1,
    )


def _call(
    chance: random.Random, name: str, agent: str, brings: str, found: dict[str, str], subs: list[Part], depth: int
) -> Call:
    tool = chance.choice((*_ACTS[agent], "search_knowledge"))
    if tool == "delegate" and depth < 3:
        other = chance.choice([one for one in _ACTS if one != agent])
        sub = _part(chance, f"{name}n{len(subs) + 1}", other, (), found, depth + 1)
        sub = Part(sub.name, other, (), sub.turns, f"{sub.report} {brings}", sub.subs, sub.doubts, sub.gives_up)
        subs.append(sub)
        return Call("delegate", {"agent": other, "task": sub.task}, brings)
    texts: dict[str, dict[str, Any]] = {
        "send_mail": {"to": [f"{name}@example.com"], "subject": f"About {name}", "text": f"Done: {brings}"},
        "create_issue": {"repository": REPOSITORY, "title": f"About {name}", "text": f"Done: {brings}"},
        "add_comment": {"repository": REPOSITORY, "issue": ISSUE, "text": f"Done: {brings}"},
        "edit_page": {"page": PAGE, "text": f"Done: {brings}"},
    }
    if tool in texts:
        return Call(tool, texts[tool], brings)
    query = f"what is open about {brings}"
    found[query] = f"Known is {brings}." + (" x" * (_LARGE // 2) if chance.random() < 0.1 else "")
    return Call("search_knowledge", {"query": query}, brings)


def _turns(one: Part) -> list[Any]:
    """What the agent's model says, turn by turn."""
    said: list[Any] = [
        {"toolCalls": [{"name": call.tool, "arguments": dict(call.arguments)} for call in turn]} for turn in one.turns
    ]
    if one.doubts:
        said.append(_reported(f"Perhaps. {mark(one.name, len(said) + 1)}", confidence=0.2))
    said.append(_reported(one.report, status="0" if one.gives_up else "1"))
    return said


def _reported(result: str, *, status: str = "1", confidence: float = 0.9) -> str:
    fields = {"STATUS": status, "RESULT": result, "ARTIFACTS": "none", "ISSUES": "none", "CONFIDENCE": confidence}
    return "\n".join([*(f"{name}: {value}" for name, value in fields.items()), "NEEDS_VERIFICATION: false"])


def marked(arguments: Mapping[str, Any]) -> str:
    """The mark in the arguments of an effect, "" without one."""
    text = str(arguments.get("text", ""))
    return text.partition("Done: ")[2] or json.dumps(arguments)
