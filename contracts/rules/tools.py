"""A line of a hard rule that bounds the atomic tools. Pure.

enforce: never-call createRelationship     the tool is not carried out
enforce: never-call create*                nor one whose name begins so
"""

from __future__ import annotations

from contracts.rules import routing
from crds import patterns

VERB = "never-call"
TOOLS = (
    "classifyJiraTicket",
    "createUserTaskFromJira",
    "deferPendingTask",
    "failToUserTask",
    "askUserQuestions",
    "routeTask",
    "storeChunk",
    "searchHybrid",
    "indexDocument",
    "createNodeWithRagLinks",
    "createRelationship",
)
"""The atomic tools (`kb.extract.tools`)."""


def parse(words: str) -> frozenset[str]:
    """The tools that the line forbids. Raises ValueError when there is none."""
    found = frozenset(one for one in TOOLS if patterns.matches(routing.fold(words), routing.fold(one)))
    if not found:
        raise ValueError(f"no atomic tool is called so; give one of {', '.join(TOOLS)}, or * for all")
    return found
