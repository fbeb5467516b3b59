"""From GpuBackend objects to what the scheduler knows: patterns, sets, bounds; and the ceilings of clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import gpubackend
from crds.gpubackend import Capability, Preemption
from router import models, priority
from router.backends import book, statuses
from router.ceilings import Ceilings
from router.effects import Held, WriteStatus
from router.priority import Level
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
