"""The three OpenAPI documents are valid OpenAPI 3.1, and say what their models say."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import kb.http
from controllers.archive import openapi as history
from crds import openapi
from kb.http import openapi as knowledge
from router import documents as router


def of_knowledge() -> dict[str, Any]:
    """Of every route there is; a process serves those of its mode."""
    modules = [importlib.import_module(f"kb.http.{found.name}") for found in pkgutil.iter_modules(kb.http.__path__)]
    routes = {one.summary: one for module in modules for one in vars(module).values() if type(one) is knowledge.Route}
    assert len(routes) > 45
    return knowledge.document(list(routes.values()), "1")


@pytest.mark.parametrize("describe", [of_knowledge, history.document, router.description])
def test_documents_are_valid(describe: Callable[[], dict[str, Any]]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(describe()).iter_errors()] == []


def test_answers_in_lines_have_their_media_type_and_the_model_of_a_line() -> None:
    paths = of_knowledge()["paths"]

    def answer(path: str, method: str) -> dict[str, str]:
        content = paths[path][method]["responses"]["200"]["content"]
        return {media: one["schema"]["$ref"].rpartition("/")[2] for media, one in content.items()}

    lines = {"application/x-ndjson": "AgentEvent"}
    assert answer("/api/v1/agentic_search", "post") == lines
    assert answer("/api/v1/agentic_search/{stream}", "get") == lines
    both = {"application/json": "RetrieveReply", "application/x-ndjson": "RetrieveEvent"}
    assert answer("/api/v1/retrieve", "post") == both


class Colour(pydantic.BaseModel):
    """One of the rainbow's."""

    nano_metres: int = pydantic.Field(alias="nanoMetres")


class Rainbow(pydantic.BaseModel):
    """All of them."""

    colours: list[Colour] = []


def test_a_document_holds_models_once_and_texts_as_given() -> None:
    made = openapi.document(
        "Sky",
        "1",
        [
            openapi.Operation("GET", "/sky", "Look", {200: openapi.Answer("Seen", openapi.json(Rainbow))}),
            openapi.Operation(
                "PUT",
                "/sky",
                "Paint",
                {204: openapi.Answer("Done"), 503: openapi.Answer("Night", {"text/plain": openapi.TEXT}, {"X": {}})},
                [openapi.parameter("at", text="where")],
                openapi.json(Colour),
            ),
        ],
        mode="serialization",
    )
    colour = {"application/json": {"schema": {"$ref": "#/components/schemas/Colour"}}}
    assert made["components"]["schemas"].keys() == {"Colour", "Rainbow"}
    assert made["components"]["schemas"]["Rainbow"]["properties"]["colours"]["items"] == {
        "$ref": "#/components/schemas/Colour"
    }
    assert made["paths"]["/sky"]["get"]["responses"]["200"]["description"] == "Seen"
    assert made["paths"]["/sky"]["put"] == {
        "summary": "Paint",
        "parameters": [
            {"name": "at", "in": "query", "required": False, "description": "where", "schema": {"type": "string"}}
        ],
        "requestBody": {"required": True, "content": colour},
        "responses": {
            "204": {"description": "Done"},
            "503": {
                "description": "Night",
                "content": {"text/plain": {"schema": {"type": "string"}}},
                "headers": {"X": {}},
            },
        },
    }
