"""What a person said, in six categories, and what is known about the user."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from contracts.api import message
from crds import scope
from kb.api.words import Name, Text


class Category(StrEnum):
    """What learned knowledge is about (seed 001 "Structured Categories")."""

    PREFERENCE = "preference"
    DOMAIN = "domain"
    TEAM = "team"
    TECH_STACK = "tech_stack"
    PERSONAL = "personal"
    GENERAL = "general"

    @property
    def kind(self) -> str:
        """The kind of the documents of this category."""
        return f"user_knowledge_{self.value}"

    @property
    def heading(self) -> str:
        """What stands above it in a prompt."""
        return {"domain": "Domain Context"}.get(self.value, self.value.replace("_", " ").title()) + (
            "s" if self is Category.PREFERENCE else ""
        )


class Knowledge(message.Request):
    """Something learned from a person, to be known in every later conversation of this scope."""

    scope: scope.Scope
    subject: Name
    content: Annotated[Text, StringConstraints(max_length=20_000)]
    category: Category = Category.GENERAL


class UserContext(message.Reply):
    """What is known about the user by category, newest first, and as markdown for a prompt; "" when nothing is."""

    markdown: str
    categories: dict[str, list[str]]
    truncated: bool = False
