"""Text of others as data in a prompt: what could end its block or begin another one is escaped. Pure.

No document can close its block, open another one, or imitate a prompt's tag line.
"""

from __future__ import annotations

import html
import re
from typing import TypeVar

from router.client import schema

S = TypeVar("S", bound=schema.Shape)
# All text that a model could mistake for the prompt's structure, in any spacing and case. The quantifiers `*+` are
# possessive: a `<` before a million blanks is scanned once.
_STRUCTURE = re.compile(
    r"<(?=\s*+/?\s*+(?:evidence|document|question|answer|message|system|prompt|rule|context|conversation|summary|plan|step|project|session|procedure|made|missing|unconfirmed|unchecked))",
    re.IGNORECASE,
)
_PROMPT_TAG = re.compile(r"\[(?=\s*+prompt\s*+:)", re.IGNORECASE)


def defuse(text: str) -> str:
    """`text` with character references in place of everything that could end its block or start another one.

    All other text stays unchanged, so that quotations are verbatim.
    """
    return _PROMPT_TAG.sub("&#91;", _STRUCTURE.sub("&lt;", text))


def restore(text: str) -> str:
    """Undo `defuse` in the model's answer."""
    return text.replace("&#91;", "[").replace("&lt;", "<")


def restored(shape: S) -> S:
    """The model's answer with `defuse` undone in each of its texts."""
    return type(shape).model_validate_json(restore(shape.model_dump_json(by_alias=True)))


def attribute(text: str) -> str:
    """`text` as the value of an attribute of a block."""
    return _PROMPT_TAG.sub("&#91;", html.escape(text, quote=True)).replace("\n", " ")
