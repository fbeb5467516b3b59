"""`kb.qualify.tools/v1`: what `kb.hints/v2` says of a document, as calls of the tools that are offered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from tests.fakes.ollama.rules import hints, prompt

TAG = "kb.qualify.tools/v1"
_ISSUE = re.compile(r"^Issue: (.+)$", re.MULTILINE)
_DONE = re.compile(r"^Result of (\w+):", re.MULTILINE)
_DOCUMENT = re.compile(r"<document>.*?</document>", re.DOTALL)


def calls(turns: Iterable[tuple[str, str]], offered: Collection[str]) -> list[dict[str, Any]]:
    """Each {name, arguments}; none where the results of earlier calls are in the turns already."""
    turns = list(turns)
    if any(role == "tool" for role, _ in turns):
        return []
    said = hints.answer(prompt.parse(turns))
    issue = _ISSUE.search(_DOCUMENT.sub("", "\n".join(text for _, text in turns)))
    made: list[tuple[str, dict[str, Any]]] = []
    if issue is not None:
        kind = "ACTIONABLE" if said["hasActionableContent"] else "INFORMATIONAL"
        about = {"jiraKey": issue[1].strip(), "classification": kind, "reason": said["reason"]}
        made.append(("classifyJiraTicket", about))
    match said["action"]:
        case "Ask":
            made.append(("askUserQuestions", {"questions": said["questions"], "context": said["reason"]}))
        case "Defer":
            made.append(("deferPendingTask", {"deferMinutes": said["deferMinutes"], "reason": said["reason"]}))
        case "Fail":
            made.append(("failToUserTask", {"reason": said["reason"]}))
    route = {
        "routing": "READY_FOR_GPU" if said["hasActionableContent"] else "DONE",
        "reason": said["reason"],
        "contextSummary": said["summary"],
        "assignedToUs": said["isAssignedToMe"],
        "urgency": said["urgency"],
        "tags": said["tags"],
    }
    if said["suggestedDeadline"]:
        route["deadline"] = said["suggestedDeadline"]
    made.append(("routeTask", route))
    return [{"name": name, "arguments": arguments} for name, arguments in made if name in offered]


def chosen(turns: Iterable[tuple[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """The next of these calls, one in an answer, as a model without tools chooses it by `format`."""
    turns = list(turns)
    choices = [choice["properties"] for choice in schema["anyOf"]]
    offered = [choice["name"]["enum"][0] for choice in choices if "name" in choice]
    done = {name for role, text in turns if role == "user" for name in _DONE.findall(text)}
    return next((call for call in calls(turns, offered) if call["name"] not in done), {"answer": "That is all."})
