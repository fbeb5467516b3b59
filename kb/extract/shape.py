"""What a model of the knowledge base is asked to answer with. Pure."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from router.client import schema

SMALL, USUAL, LONG, LONGEST = 256, 1536, 4096, 8192
"""Tokens of an answer: a sentence and a word, a few sentences and lists, a page, what a whole chunk says."""


class Shape(schema.Shape):
    """`tokens`: the most that an answer can need, without thoughts."""

    model_config = ConfigDict(extra="ignore")
    tokens: ClassVar[int] = USUAL


class Camel(Shape):
    """The same with names as the API spells them."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


Cautious = dict[str, Any]
"""Of fields by the name that is sent."""
