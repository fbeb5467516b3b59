"""Regular expressions written as lists of alternatives, because the rules are mostly lists of ways to say a thing."""

from __future__ import annotations

import re


def any_of(*forms: str) -> re.Pattern[str]:
    """Matches any of the forms, upper or lower case."""
    return re.compile("|".join(f"(?:{form})" for form in forms), re.IGNORECASE)


def phrases(*forms: str) -> re.Pattern[str]:
    """Matches any of the forms as whole words, upper or lower case."""
    return re.compile(r"\b(?:" + "|".join(forms) + r")\b", re.IGNORECASE)
