"""The tools with their arguments, results and JSON schemas."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

from kb import api
from router.client import schema


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
        # What the arguments are stands in the prompt once; their descriptions would stand in each.
        takes = schema.Parameters(_plain(schema.parameters(self.arguments), explained=False))
        about = {"name": self.name, "description": self.description, "parameters": takes}
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


def schema_of(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The JSON Schema of arguments as agents are offered it. It has no bounds of texts, which engines may refuse as
    parameters of a tool: arguments are checked when they come."""
    made = {key: value for key, value in schema.parameters(model).items() if key != "description"}
    return {**_plain(made, explained=True), "additionalProperties": False}


def _plain(part: Mapping[str, Any], *, explained: bool) -> dict[str, Any]:
    """Without "or null", which says nothing to a model, and without descriptions if they are not wanted."""
    several = [one for one in part.get("anyOf", ()) if one != {"type": "null"}]
    if len(several) == 1:
        part = {**several[0], **{key: value for key, value in part.items() if key != "anyOf"}}
    elif several:
        part = {**part, "anyOf": several}
    made = {key: value for key, value in part.items() if key != "description" or explained}
    if "properties" in made:
        made["properties"] = {name: _plain(one, explained=explained) for name, one in made["properties"].items()}
    if isinstance(made.get("items"), Mapping):
        made["items"] = _plain(made["items"], explained=explained)
    return made
