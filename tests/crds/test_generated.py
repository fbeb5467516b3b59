"""The committed CRDs are what the models say, and the models read what the apiserver stores."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from crds import __main__ as generator
from crds import connection, definitions, gpubackend, pendingtask


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
