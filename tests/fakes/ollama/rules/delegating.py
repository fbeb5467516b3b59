"""The delegation graph without a script: a plan of one or two agents, reports from the context, one answer from both.

`job.plan_delegations/v1`: Research finds out what is asked; a mail is answered with a draft behind that.
`job.agent.NAME/v1`: a report whose result quotes the context, each sentence with its source.
`job.design/v1`, `job.goals/v1`: the question itself, and a goal for each item of its list, or one.
`job.plan_steps/v1`: one step with the question of the goal.
`job.synthesize/v1`: as `job.respond/v1` from the evidence; what that does not know is taken from the reports.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from tests.fakes.ollama.rules import prompt, respond, text

_AGENT = re.compile(r"^([A-Z][A-Za-z]+): \S", re.MULTILINE)
_BLOCK = re.compile(r"^source: (\S[^\n]*)\n(.*?)(?=\n\n[^\n]*\nsource: |\n</context>|\Z)", re.MULTILINE | re.DOTALL)
_MESSAGE = re.compile(r"<message [^>]*>\n(.*?)\n</message>", re.DOTALL)
_MARK = re.compile(r"\[(\d+)\]")
_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_GOAL = re.compile(r'<document source="goal">\n(.*?)\n</document>', re.DOTALL)
_CHARS = 400
_MOST_GOALS = 7


def plan(asked: prompt.Prompt) -> dict[str, Any]:
    """With the agents that the prompt lists."""
    names = [name for name in _AGENT.findall(asked.document.partition("Agents:")[2]) if name != "Kind"]
    finds = "Research" if "Research" in names else next(iter(names), "LegacyAgent")
    question = text.shorten(_question(asked), _CHARS)
    made = [_one(finds, question, "The answer with its sources.")]
    if "Email" in names and asked.evidence and asked.evidence[0].source.startswith("email::"):
        made.append(_one("Email", f"Draft the answer to the mail: {question}", "The draft.", 1))
    return {"domain": "RESEARCH" if len(made) == 1 else "COMMUNICATION", "delegations": made}


def _one(agent: str, task: str, expected: str, *needs: int) -> dict[str, Any]:
    return {"agent": agent, "task": task, "expectedOutput": expected, "constraints": [], "dependsOn": list(needs)}


def design(asked: prompt.Prompt) -> dict[str, Any]:
    """What is asked, as it stands."""
    return {"design": text.shorten(_question(asked), _CHARS)}


def goals(asked: prompt.Prompt) -> dict[str, Any]:
    """Of the question's list, or one."""
    question = _question(asked)
    items = _ITEM.findall(question)[:_MOST_GOALS] or [question]
    return {
        "goals": [
            {
                "title": text.shorten(" ".join(one.split()), 100),
                "description": text.shorten(one, _CHARS),
                "doneWhen": "It is answered with its sources.",
                "dependsOn": [],
            }
            for one in items
        ]
    }


def steps(asked: prompt.Prompt) -> dict[str, Any]:
    """One delegation for the goal."""
    found = _GOAL.search(asked.document)
    return plan(dataclasses.replace(asked, question=found[1]) if found else asked)


def report(asked: prompt.Prompt, embed: respond.Embed) -> dict[str, Any]:
    """In the protocol of agents."""
    found = [prompt.Evidence(n, source, said) for n, (source, said) in enumerate(_BLOCK.findall(asked.document), 1)]
    given = respond.answer(dataclasses.replace(asked, question=_question(asked), evidence=tuple(found)), embed)
    if given["needsInput"]:
        lines = ["STATUS: P", f"RESULT: Nothing in the context says: {text.shorten(_question(asked), _CHARS)}"]
        lines += ["ARTIFACTS: none", "ISSUES: the context does not answer it", "CONFIDENCE: 0.5"]
        return {"answer": "\n".join([*lines, "NEEDS_VERIFICATION: true"])}
    sources = {str(one.id): one.source for one in found}
    result = _MARK.sub(lambda mark: f"[{sources[mark[1]]}]", given["answer"])
    lines = ["STATUS: 1", f"RESULT: {result}", "ARTIFACTS: none", "ISSUES: none"]
    return {"answer": "\n".join([*lines, "CONFIDENCE: 0.8", "NEEDS_VERIFICATION: false"])}


def synthesis(asked: prompt.Prompt, embed: respond.Embed) -> dict[str, Any]:
    """The object of the prompt's schema."""
    given = respond.answer(dataclasses.replace(asked, question=_question(asked)), embed)
    reports = " ".join(_MESSAGE.findall(asked.document))
    if given["needsInput"] and reports:
        return {"answer": reports, "citations": [], "confidence": 0.5, "needsInput": False, "questions": []}
    return given


def _question(asked: prompt.Prompt) -> str:
    """Instructions name the tag of the question, too: the last one counts."""
    return asked.question.rpartition("<question>")[2] or asked.document
