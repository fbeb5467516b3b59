"""docs/api.md has every field of the CRDs once, with its type, default and rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from crds import __main__ as command
from crds import definitions, reference
from crds.schema import Schema

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
