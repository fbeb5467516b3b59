"""Every example is what the apiserver and the models accept, and no type is without one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, dynamic

from contracts.rules import enforce_lines
from crds import connection, gpubackend, pendingtask
from kb.api import rules
from tests.conftest import ROOT, api_client

EXAMPLES = ROOT / "examples"
MODELS = {
    "PendingTask": pendingtask.PendingTask,
    "Connection": connection.Connection,
    "GpuBackend": gpubackend.GpuBackend,
}


def files() -> list[Path]:
    """Manifests: every YAML but the chart's values, the patches and the set of qualification."""
    return sorted(path for path in EXAMPLES.rglob("*.yaml") if path.parent.name not in ("values", "patches", "qualify"))


def documents() -> list[tuple[str, dict[str, Any]]]:
    """(file and name, object) of every YAML below examples/ that holds Kubernetes objects."""
    found = []
    for path in files():
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            found.append((f"{path.relative_to(EXAMPLES)}:{document['metadata']['name']}", document))
    return found


DOCUMENTS = documents()
OURS = [(where, document) for where, document in DOCUMENTS if document["kind"] in MODELS]


@pytest.mark.parametrize("document", [d for _, d in OURS], ids=[where for where, _ in OURS])
def test_the_models_read_it_and_write_it_back(document: dict[str, Any]) -> None:
    parsed = MODELS[document["kind"]].model_validate(document)
    written = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert set(written["spec"]) == set(document["spec"])


@pytest.fixture
def resources(kubeconfig: Path) -> Iterator[Any]:
    """Finds the API of any kind."""
    api = api_client(kubeconfig)
    yield dynamic.DynamicClient(api).resources  # type: ignore[no-untyped-call]  # kubernetes ships no types
    api.close()


def dry_run(resources: Any, document: dict[str, Any]) -> Any:
    """What the apiserver makes of it, with strict validation; nothing is kept."""
    resource = resources.get(api_version=document["apiVersion"], kind=document["kind"])
    strict = [("fieldValidation", "Strict")]
    taken = resource.create(body=document, namespace="default", dry_run="All", query_params=strict)
    kept = [item["metadata"]["name"] for item in resource.get(namespace="default").to_dict()["items"]]
    assert taken.metadata.name not in kept
    return taken


@pytest.mark.apiserver
@pytest.mark.parametrize("document", [d for _, d in DOCUMENTS], ids=[where for where, _ in DOCUMENTS])
def test_the_apiserver_takes_it_as_it_is(resources: Any, document: dict[str, Any]) -> None:
    assert dry_run(resources, document).metadata.name == document["metadata"]["name"]


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("PendingTask", set(pendingtask.Type)),
        ("Connection", set(connection.Type)),
        ("GpuBackend", set(gpubackend.Kind)),
    ],
)
def test_there_is_one_of_every_type(kind: str, types: set[str]) -> None:
    field = "kind" if kind == "GpuBackend" else "type"
    shown = {document["spec"].get(field) for _, document in OURS if document["kind"] == kind}
    assert types <= shown


def test_names_do_not_collide() -> None:
    """They are applied together."""
    names = [(document["kind"], document["metadata"]["name"]) for _, document in DOCUMENTS]
    assert len(names) == len(set(names))


def test_every_secret_that_is_named_is_there() -> None:
    secrets = {d["metadata"]["name"]: set(d["stringData"]) for _, d in DOCUMENTS if d["kind"] == "Secret"}
    for where, document in OURS:
        reference = document["spec"].get("secretRef")
        if reference:
            assert reference["name"] in secrets, where
            assert reference.get("key") in {None, *secrets[reference["name"]]}, where


@pytest.mark.parametrize("path", sorted((EXAMPLES / "patches").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_patch_fits_a_task(path: Path) -> None:
    task = next(document for _, document in OURS if document["kind"] == "PendingTask")
    patch = yaml.safe_load(path.read_text())
    assert list(patch) == ["spec"]
    parsed = pendingtask.PendingTask.model_validate({**task, "spec": {**task["spec"], **patch["spec"]}})
    written = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)["spec"]
    for field, value in patch["spec"].items():
        kept = value[0] if isinstance(value, list) else value
        assert set(kept) == set(written[field][0] if isinstance(value, list) else written[field])


def test_the_rule_asks_for_an_approval() -> None:
    draft = rules.RuleDraft.model_validate_json((EXAMPLES / "rules" / "answers-need-approval.json").read_bytes())
    assert enforce_lines.NEEDS_APPROVAL in {one.verb for one in enforce_lines.of(draft.rule_content)}
    [asked] = [document for where, document in OURS if where.startswith("pendingtasks/approval.yaml")]
    assert (asked["spec"]["clientId"], asked["spec"]["projectId"]) == (draft.scope.client_id, draft.scope.project_id)


@pytest.mark.parametrize("path", sorted((EXAMPLES / "rules").glob("*.json")), ids=lambda path: str(path.stem))
def test_each_rule_is_one_that_is_enforced(path: Path) -> None:
    draft = rules.RuleDraft.model_validate_json(path.read_bytes())
    assert draft.rule_key == path.stem
    assert enforce_lines.of(draft.rule_content) != ()


def test_addresses_are_nobodys() -> None:
    """Reserved example domains (RFC 2606) and well-known public services alone: an example must not call a stranger."""
    for where, document in DOCUMENTS:
        for host in re.findall(r"[a-z]+://([^/:\s]+)", yaml.safe_dump(document)):
            assert re.search(r"(^|\.)example\.(com|net|org)$|^example\.atlassian\.net$|^github\.com$", host), (
                where,
                host,
            )


@pytest.mark.apiserver
def test_a_refused_example_would_be_noticed(resources: Any) -> None:
    """The check above can fail: the same call refuses an unknown field."""
    broken = {**OURS[0][1], "spec": {**OURS[0][1]["spec"], "priorty": 1}}
    with pytest.raises(client.ApiException, match="unknown field"):
        dry_run(resources, broken)
