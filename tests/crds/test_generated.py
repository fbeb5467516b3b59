"""What is generated from the models is what they say: the CRDs, docs/api.md, the OpenAPI documents."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

import kb.service.http
from codegraph import routes as code_routes
from contracts import http_routes, openapi
from controllers.archive import openapi as history
from crds import __main__ as command
from crds import __main__ as generator
from crds import connection, definitions, gpubackend, pendingtask, reference
from crds.schema import Schema
from kb import routes
from kb.service.http import openapi as knowledge
from router import documents as router


@pytest.mark.parametrize("definition", definitions.ALL, ids=lambda definition: definition.kind)
def test_committed_yaml_is_current(definition: definitions.Definition) -> None:
    assert generator.path(definition).read_text() == generator.render(definition), "run `python -m crds --write`"


def walk(node: Any, path: str = "") -> Any:
    if isinstance(node, dict):
        yield path, node
        for key, child in node.items():
            yield from walk(child, f"{path}.{key}")
    elif isinstance(node, list):
        for child in node:
            yield from walk(child, path)


@pytest.mark.parametrize("definition", definitions.ALL, ids=lambda definition: definition.kind)
def test_schema_is_structural_and_bounded(definition: definitions.Definition) -> None:
    schema = definition.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, node in walk(schema):
        assert "$ref" not in node, path
        if "x-kubernetes-preserve-unknown-fields" in node:
            # Values of several types in one map; the knowledge base checks them (kb.api.ingest.Properties).
            assert path.startswith(".properties.spec.properties.facts."), path
            assert "maxProperties" in node, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if (
            node.get("type") == "string"
            and "enum" not in node
            and path.startswith((".properties.spec", ".properties.status"))
        ):
            assert "maxLength" in node or node.get("format") == "date-time", path


def test_every_field_is_documented() -> None:
    for definition in definitions.ALL:
        schema = yaml.safe_load(generator.render(definition))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            for name, field in schema["properties"][part]["properties"].items():
                assert field.get("description"), f"{definition.kind}.{part}.{name}"


def test_wire_round_trip() -> None:
    task = pendingtask.PendingTask.model_validate(
        {
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "managedFields": []},
            "spec": {"type": "EmailProcessing", "clientId": "acme", "content": "x", "fromTheFuture": 1},
            "status": {"phase": "ReadyForGpu", "retry": {"count": 2, "nextAt": "2026-01-02T03:04:05Z"}},
        }
    )
    assert task.metadata.resource_version == "7"
    assert task.spec.mode is pendingtask.Mode.BACKGROUND
    wire = task.wire()
    assert wire["status"]["retry"] == {"count": 2, "nextAt": "2026-01-02T03:04:05Z", "reason": "", "waitsFor": ""}
    assert pendingtask.PendingTask.model_validate(wire) == task


def test_defaults_of_the_seed() -> None:
    spec = gpubackend.Spec(url="http://gpu-0:11434")
    assert (spec.reservation.max_seconds, spec.reservation.idle_release_seconds) == (1800, 300)
    assert connection.RateLimit().requests_per_minute == 60


PAGE = reference.page()


def section(kind: str) -> str:
    return re.split(r"^## ", PAGE.split(f"\n## {kind}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def leaves(node: Schema, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Names of fields below the committed schema, without the marks of lists and maps."""
    for key, child in node.items():
        if key == "properties":
            for name, field in child.items():
                yield ".".join((*path, name))
                yield from leaves(field, (*path, name))
        elif key in ("items", "additionalProperties") and isinstance(child, dict):
            yield from leaves(child, path)


@pytest.mark.parametrize("definition", definitions.ALL, ids=lambda one: one.kind)
def test_every_field_has_one_row(definition: definitions.Definition) -> None:
    committed = yaml.safe_load(command.path(definition).read_text())
    schema = committed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    wanted = [f"{part}.{name}" for part in ("spec", "status") for name in leaves(schema[part])]
    rows = re.findall(r"^\| `([^`]+)` \|", section(definition.kind), flags=re.MULTILINE)
    assert [row.replace("[]", "").replace("{}", "") for row in rows] == wanted
    assert len(wanted) > 15


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("PendingTask", '| `spec.mode` | `Foreground`, `Background` | `"Background"` | Foreground when '),
        ("PendingTask", "| `spec.clientId` | string | required | The client "),
        ("PendingTask", "| `spec.ttlSecondsAfterFinished` | integer from 0 to 31536000 |  | Seconds "),
        ("GpuBackend", "| `spec.modelSets[].models[].cpuAllowed` | boolean | `false` | Whether "),
    ],
)
def test_a_row_says_type_bounds_and_default(kind: str, row: str) -> None:
    assert f"\n{row}" in section(kind)


def test_rules_are_given_with_the_words_of_the_refusal() -> None:
    [content] = re.findall(r"^\| `spec\.content` .*", section("PendingTask"), flags=re.MULTILINE)
    assert 'Refused otherwise: "must not be blank".' in content
    assert '\nRefused otherwise: "vram is for kind GPU; ' in section("GpuBackend")


def test_every_row_has_four_cells_and_no_tag() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert "\\<id@host>" in PAGE
    assert not re.search(r"(?<!\\)<", PAGE)


def of_knowledge() -> dict[str, Any]:
    """Of every route there is; a process serves those of its mode."""
    modules = [
        routes,
        code_routes,
        *(
            importlib.import_module(f"kb.service.http.{found.name}")
            for found in pkgutil.iter_modules(kb.service.http.__path__)
        ),
    ]
    found = (row for module in modules for row in vars(module).values())
    rows = {row.summary: row for row in found if isinstance(row, http_routes.Route)}
    assert len(rows) > 45
    return knowledge.document(list(rows.values()), "1")


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
