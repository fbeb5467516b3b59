"""From GpuBackends, objects or setting, to what the scheduler knows: patterns, sets, bounds; ceilings of clients."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crds import gpubackend
from crds.gpubackend import Capability, Preemption
from router import models, priority
from router.backends import book, environment, statuses
from router.ceilings import Ceilings
from router.effects import Held, WriteStatus
from router.priority import Level
from tests.crds import tables
from tests.router import process
from tests.router.plans import GIB

_NAMES = ("qwen2.5:7b", "qwen2.5:14b", "qwen3-embedding:8b", "qwen3-coder:30b")
_SETS = [
    {
        "name": "orchestrator",
        "models": [{"name": "Qwen3-Coder:30b", "vram": "20Gi", "numCtx": 8192, "priority": 0}],
    },
    {"name": "background", "models": [{"name": "qwen2.5:*", "vram": "6Gi", "priority": 3}, {"name": "qwen2.5:14b"}]},
]


def _entry(*listed: str, **spec: Any) -> book.Entry:
    entry = book.Entry("b", gpubackend.Spec.model_validate({"url": "http://b:1", **spec}))
    entry.tags = tuple({"name": name} for name in listed)
    entry.reachable = True
    return entry


def test_a_pattern_stands_for_what_the_server_lists_and_nobody_names_exactly() -> None:
    view = _entry(*_NAMES, modelSets=_SETS, vram="24Gi").view()
    members = {one.name: {m.name: (m.vram, m.num_ctx, m.urgency) for m in one.members} for one in view.sets}
    assert members == {
        "orchestrator": {"qwen3-coder:30b": (20 * GIB, 8192, 0)},
        "background": {"qwen2.5:7b": (6 * GIB, None, 3), "qwen2.5:14b": (None, None, 3)},
    }
    assert view.models == frozenset({"qwen3-coder:30b", "qwen2.5:7b", "qwen2.5:14b"})
    assert (view.vram, view.keep_alive, view.durations.longest, view.durations.idle) == (24 * GIB, 2100, 1800, 300)


def test_what_the_server_does_not_have_is_in_no_set() -> None:
    view = _entry("qwen2.5:7b", modelSets=_SETS).view()
    assert [one.name for one in view.sets] == ["background"]
    assert view.models == frozenset({"qwen2.5:7b"})


def test_bounds_and_policies_pass_through() -> None:
    view = _entry("m", weight=3, maxInFlight=5, preemption="Never", capabilities=["embed"], pool="p").view()
    assert (view.weight, view.max_in_flight, view.preemption) == (3, 5, Preemption.NEVER)
    assert (view.capabilities, view.pool, view.sets) == (frozenset({Capability.EMBED}), "p", ())
    assert _entry("m", kind="CPU", numParallel=10).view().max_in_flight == 10
    assert _entry("m", numParallel=10).view().max_in_flight > 10**6


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("qwen2.5:*", "qwen2.5:7b", True),
        ("qwen2.5:*", "qwen2x5:7b", False),
        ("Qwen*", "qwen3-embedding:8b", True),
        ("*-embedding", "qwen3-embedding:latest", True),
        ("*-embedding", "qwen3-embedding:8b", False),
        ("*", "anything:at-all", True),
        ("hf.co/*:q4_k_m", "hf.co/org/model-gguf:q4_k_m", True),
    ],
)
def test_patterns(pattern: str, name: str, fits: bool) -> None:
    assert models.Pattern(pattern).fits(name) == fits


def test_an_exact_name_counts_before_its_family_before_the_longest_pattern() -> None:
    spec = gpubackend.ModelSpec
    table = models.Table(
        [
            spec(name="*", priority=2),
            spec(name="qwen*", priority=3),
            spec(name="qwen2.5:1*", priority=1),
            spec(name="qwen2.5:14b", priority=0),
            spec(name="llama3", priority=1),
        ]
    )
    names = ("qwen2.5:14b", "qwen2.5:72b", "qwen2.5:1b", "llama3:8b", "mistral:7b")
    assert [priority.level(None, name, table) for name in names] == [Level.P0, Level.P3, Level.P1, Level.P1, Level.P2]


def test_ceilings_lower_a_claim_and_nothing_else() -> None:
    ceilings = Ceilings(
        [
            gpubackend.Ceiling(client="*", priority=2),
            gpubackend.Ceiling(client="system:serviceaccount:jervis:*", priority=1),
            gpubackend.Ceiling(client="system:serviceaccount:jervis:orchestrator", priority=0),
            gpubackend.Ceiling(client="batch", priority=2),
            gpubackend.Ceiling(client="batch", priority=3),
        ]
    )
    account = "system:serviceaccount:jervis:"
    clients = (account + "orchestrator", account + "kb", "10.0.0.7", "batch")
    assert [ceilings.clamp(client, Level.P0) for client in clients] == [Level.P0, Level.P1, Level.P2, Level.P3]
    assert ceilings.clamp("10.0.0.7", Level.P3) is Level.P3
    assert ceilings.clamp("batch", Level.AUTO) is Level.P3
    assert Ceilings(()).clamp("anybody", Level.P0) is Level.P0


def test_a_status_keeps_a_reservation_over_a_restart() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    written: list[tuple[str, dict[str, Any]]] = []
    backends = book.Book(now=lambda: 100.0)

    async def patch(name: str, status: Mapping[str, Any]) -> None:
        written.append((name, dict(status)))

    writer = statuses.Writer(backends, patch, wall=lambda: noon, now=lambda: 100.0, active=lambda: True)
    writer.perform(WriteStatus("b", ("orchestrator",), Held("job", "id", 1900.0, "orchestrator")))
    holder = writer._told["b"]["reservation"]
    assert holder == {
        "holder": "job", "leaseId": "id", "modelSet": "orchestrator", "until": "2026-01-01T12:30:00Z",
    }  # fmt: skip
    status = gpubackend.Status.model_validate({"reservation": holder})
    again = statuses.restored(status, wall=noon + timedelta(minutes=10), now=7.0)
    assert again == Held("job", "id", 7.0 + 1200, "orchestrator")
    assert statuses.restored(status, wall=noon + timedelta(minutes=30), now=7.0) is None
    assert statuses.restored(gpubackend.Status(), wall=noon, now=7.0) is None


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_means_what_a_regular_expression_would(pattern: str, name: str) -> None:
    made = models.Pattern(pattern + "*")
    wanted = re.compile(".*".join(map(re.escape, made.text.split("*")))).fullmatch(name) is not None
    assert made.fits(name) == wanted


# GPU_BACKENDS is refused where the apiserver refuses a GpuBackend, with index, field and remedy.

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
