"""What the apiserver refuses by itself, with no operator running. The tables are in rejections/*.yaml."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from crds import GROUP, VERSION
from tests.crds.tables import expand, merge

pytestmark = pytest.mark.apiserver
TABLES = sorted((Path(__file__).parent / "rejections").glob("*.yaml"))


def cases() -> Iterator[Any]:
    for path in TABLES:
        table = yaml.safe_load(path.read_text())
        for case in table["cases"]:
            yield pytest.param(table["plural"], table["base"], expand(case), id=f"{path.stem}-{case['id']}")


def test_the_table_is_as_long_as_promised() -> None:
    assert sum(1 for _ in cases()) >= 60


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_base_is_accepted(path: Path, custom_objects: client.CustomObjectsApi) -> None:
    table = yaml.safe_load(path.read_text())
    custom_objects.create_namespaced_custom_object(
        GROUP, VERSION, "default", table["plural"], table["base"], dry_run="All", field_validation="Strict"
    )


@pytest.mark.parametrize(("plural", "base", "case"), list(cases()))
def test_refused(
    plural: str, base: dict[str, Any], case: dict[str, Any], custom_objects: client.CustomObjectsApi
) -> None:
    manifest = merge(copy.deepcopy(base), case["set"])
    if "then" not in case:
        with pytest.raises(client.ApiException) as refusal:
            custom_objects.create_namespaced_custom_object(
                GROUP, VERSION, "default", plural, manifest, dry_run="All", field_validation="Strict"
            )
    else:
        name = manifest["metadata"]["name"] = f"case-{case['id']}"
        stored = custom_objects.create_namespaced_custom_object(GROUP, VERSION, "default", plural, manifest)
        try:
            with pytest.raises(client.ApiException) as refusal:
                custom_objects.replace_namespaced_custom_object(
                    GROUP, VERSION, "default", plural, name, merge(stored, case["then"]), field_validation="Strict"
                )
        finally:
            custom_objects.delete_namespaced_custom_object(GROUP, VERSION, "default", plural, name)
    assert refusal.value.status in (400, 422)
    message = json.loads(refusal.value.body or "{}")["message"]
    assert case["field"] in message
    assert case["says"] in message
