"""The tools with their arguments, results and JSON schemas."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

from kb import api


@dataclass(frozen=True)
class Tool:
    """`concerns_task`: it says something of the task that is qualified; the others store and search."""

    name: str
    description: str
    arguments: type[pydantic.BaseModel]
    result: type[pydantic.BaseModel]
    concerns_task: bool = False

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return schema_of(self.arguments)

    @functools.cached_property
    def function(self) -> dict[str, Any]:
        """The tool in the form of Ollama's `tools` (docs/api.md of Ollama, "Chat request (with tools)")."""
        about = {"name": self.name, "description": self.description, "parameters": _brief(self.schema)}
        return {"type": "function", "function": about}


ALL = (
    Tool(
        "classifyJiraTicket",
        "Say what kind of issue this is. customGroup goes with CUSTOM alone.",
        api.ClassifyJiraTicket,
        api.ClassificationResult,
        concerns_task=True,
    ),
    Tool(
        "createUserTaskFromJira",
        "A person has to look at the issue first; title says what for. descriptionRef is the Document line.",
        api.CreateUserTaskFromJira,
        api.TaskCreationResult,
        concerns_task=True,
    ),
    Tool(
        "deferPendingTask",
        "The document forbids to begin before a later day; deferMinutes counts from the beginning of Today.",
        api.DeferPendingTask,
        api.DeferResult,
        concerns_task=True,
    ),
    Tool(
        "failToUserTask",
        "Nothing can be done with the document, because it is encrypted or cannot be read.",
        api.FailToUserTask,
        api.FailResult,
        concerns_task=True,
    ),
    Tool(
        "askUserQuestions",
        "The work cannot begin before a person answers what the document leaves open.",
        api.AskUserQuestions,
        api.AskResult,
        concerns_task=True,
    ),
    Tool(
        "routeTask",
        "READY_FOR_GPU: somebody is asked to do or decide something; DONE: nobody is.",
        api.RouteTask,
        api.RouteResult,
        concerns_task=True,
    ),
    Tool(
        "storeChunk",
        "Store a text of at most 4,000 characters about one thing, extracted from a document that is known.",
        api.StoreChunk,
        api.Stored,
    ),
    Tool(
        "searchHybrid",
        "Find chunks by vector search and keyword search; the answer has their ids and sources, not their text.",
        api.SearchHybrid,
        api.SearchResult,
    ),
    Tool(
        "indexDocument",
        "Store a text of your own as a document. It does not replace what a source sent.",
        api.IndexDocument,
        api.Stored,
    ),
    Tool(
        "createNodeWithRagLinks",
        "Make a node of the graph, proved by chunks that name it.",
        api.CreateNodeWithRagLinks,
        api.NodeStored,
    ),
    Tool(
        "createRelationship",
        "Make a relationship of two nodes, proved by a sentence of a chunk that names both.",
        api.CreateRelationship,
        api.RelationshipStored,
    ),
)
"""Every tool (seed 000 "Qualifier - Tools", seed 002 "Atomic Tool Design")."""
NAMED: Mapping[str, Tool] = {one.name: one for one in ALL}
TASK = tuple(one for one in ALL if one.concerns_task)


_BOUNDS = frozenset({"description", "minLength", "maxLength", "pattern", "additionalProperties", "default"})
"""What a model cannot count, or need not know: it would stand in each prompt."""


def _brief(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_brief(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _brief(one) for name, one in value.items()} if key == "properties" else _brief(value)
        for key, value in schema.items()
        if key not in _BOUNDS
    }


def schema_of(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The JSON Schema of arguments, without what says nothing to a model."""
    whole = model.model_json_schema(by_alias=True)
    parts = whole.pop("$defs", {})
    whole.pop("description", None)
    made: dict[str, Any] = plain(whole, parts)
    return made


def plain(schema: Any, parts: Mapping[str, Any]) -> Any:
    """With `parts` in place of references, and without titles, empty defaults and "or null"."""
    if isinstance(schema, list):
        return [plain(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {**parts[schema["$ref"].rpartition("/")[2]], **schema}
    several = schema.get("anyOf")
    if isinstance(several, list) and {"type": "null"} in several:
        others = [one for one in several if one != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return plain({**others[0], **rest} if len(others) == 1 else {**rest, "anyOf": others}, parts)
    # A property may itself be called "title" or "default": those are objects.
    return {
        key: plain(value, parts)
        for key, value in schema.items()
        if key != "$ref"
        and not (key == "title" and isinstance(value, str))
        and not (key == "default" and value is None)
    }
