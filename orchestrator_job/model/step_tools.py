"""What a run can do in a step of its plan, which a rule may forbid. Pure."""

from __future__ import annotations

from enum import StrEnum


class Tool(StrEnum):
    """What a run can do in a step."""

    SEARCH = "search"
    """Ask the knowledge base once more, with the step's description."""
    ANSWER = "answer"
    """Write it from the evidence."""
    ASK = "ask"
    """Ask the user."""
