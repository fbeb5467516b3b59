"""The setting GPU_BACKENDS is refused where the apiserver refuses a GpuBackend, with index, field and remedy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from router.backends import environment
from tests.crds import tables
from tests.router import process

_ROOT = Path(__file__).resolve().parents[2]
_TABLE = _ROOT / "tests/crds/rejections/gpubackend.yaml"
_GOOD = {"name": "gpu-0", "url": "http://gpu-0:11434"}


def _cases() -> list[Any]:
    table = yaml.safe_load(_TABLE.read_text())
    return [
        pytest.param(tables.merge(table["base"]["spec"], tables.expand(case["set"])["spec"]), case, id=case["id"])
        for case in table["cases"]
    ]


@pytest.mark.parametrize(("spec", "case"), _cases())
def test_what_the_apiserver_refuses_is_refused(spec: dict[str, Any], case: dict[str, Any]) -> None:
    with pytest.raises(environment.Invalid) as caught:
        environment.read(json.dumps([_GOOD, {"name": "gpu-1", **spec}]))
    field = str(caught.value.field)
    assert field.startswith("GPU_BACKENDS[1]" + case["field"].removeprefix("spec")), field
    assert field in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("path", sorted((_ROOT / "examples/gpubackends").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_the_apiserver_takes_is_taken(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        name = document["metadata"]["name"]
        assert list(environment.read(json.dumps([{"name": name, **document["spec"]}]))) == [name]


@pytest.mark.parametrize(
    "name",
    ["(next router)", "", "gpu\r\nX-Evil: 1", "gpu-0\n", "gpu 0", "GPU", "-gpu", "gpu.", "g\u00fc", "g" * 254, 7, None],
)
def test_a_name_is_one_that_kubernetes_takes(name: Any) -> None:
    with pytest.raises(environment.Invalid) as caught:
        environment.read(json.dumps([_GOOD, {**_GOOD, "name": name}]))
    assert caught.value.field == "GPU_BACKENDS[1].name"
    assert "lower-case" in str(caught.value.remedy)
    assert len(caught.value.message) < 200
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ("http://gpu-0:11434", ""),
        ({**_GOOD, "name": "gpu-0"}, ".name"),
        ({"url": "http://gpu-1:11434"}, ".name"),
        ({"name": "gpu-1", "url": "http://gpu-1:11434", "numparallel": 4}, ".numparallel"),
        ({"name": "gpu-1", "url": "http://gpu-1:11434", "num_parallel": 4}, ".num_parallel"),
        ({"name": "gpu-1", "url": "http://gpu-1:11434", "numParallel": "4"}, ".numParallel"),
        ({"name": "gpu-1", "url": "http://gpu-1\r\n:11434"}, ".url"),
    ],
)
def test_an_entry_that_is_none(item: Any, field: str) -> None:
    with pytest.raises(environment.Invalid) as caught:
        environment.read(json.dumps([_GOOD, item]))
    assert caught.value.field == f"GPU_BACKENDS[1]{field}"
    assert caught.value.remedy


async def test_the_router_exits_with_2_and_says_which_field(tmp_path: Path) -> None:
    sets = process.model_set({"name": "m", "numCtx": 4096})
    router = process.start(tmp_path, [_GOOD, {**_GOOD, "name": "v", "engine": "OpenAI", "modelSets": sets}])
    assert await asyncio.to_thread(router.process.wait, 300) == 2
    assert "GPU_BACKENDS[1].modelSets[0].models[0].numCtx" in router.text()
    assert "Leave them out" in router.text()
