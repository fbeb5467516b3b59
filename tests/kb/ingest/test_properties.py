"""Whatever order documents come, change and go in, and however many at once: the end state is that of what is left."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb import metrics, selection
from kb.graph import model
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import scopes, world

_PEOPLE = ("Petr Svoboda", "Ann Meyer", "Jana Novak")
_URNS = st.sampled_from(["email::<1@a>", "email::<2@a>", "note:3", "jira:JERV-4"])


@dataclass(frozen=True)
class Step:
    """Ingest a version of a document, or forget it (None)."""

    urn: str
    version: int | None


_STEPS = st.lists(st.builds(Step, _URNS, st.none() | st.integers(0, 2)), min_size=1, max_size=10)


def text(urn: str, version: int) -> str:
    """Documents share people and files, so that one's knowledge hangs on another's."""
    one, other = _PEOPLE[version], _PEOPLE[(version + len(urn)) % 3]
    lines = [f"{one} wrote module{version}.py for Globex. {other} uses module{len(urn) % 3}.py."]
    lines += [f"user:{one.split()[0]}|OWNS|file:module{version}.py"] * (version != 1)
    return "\n\n".join(lines * (1 + version))


def _chunk_id(one: model.Committed) -> str:
    return one.chunk_id


async def do(kb: world.ObservedState, step: Step) -> None:
    if step.version is None:
        await kb.pipeline.forget(scopes.SHOP, step.urn)
    else:
        await kb.ingest(world.request(text(step.urn, step.version), urn=step.urn, title=f"About {step.version}"))


async def everything(kb: world.ObservedState) -> object:
    """All that both stores hold of the client, by id, in no order of arrival."""
    graph, _ = await kb.graph.audit("acme", limit=10_000)
    chunks, _ = await kb.vectors.audit("acme", limit=10_000)
    sentences, _ = await kb.vectors.audit_sentences("acme", limit=10_000)
    nodes = await kb.graph.nodes(scopes.SHOP, limit=10_000)
    return (
        await kb.state(),
        # When a version began says that there was another one before; a chunk's revision covers it.
        sorted((replace(one, document=replace(one.document, since_ms=None)) for one in graph), key=_chunk_id),
        sorted((replace(one, revision="") for one in chunks), key=lambda one: one.chunk_id),
        sorted(sentences, key=lambda one: one.sentence_id),
        sorted(nodes, key=lambda one: one.key),
    )


async def after(
    batches: Sequence[Sequence[Step]],
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
) -> object:
    """The state of a world of its own after these steps, those of one batch at once, and without its history."""
    with tempfile.TemporaryDirectory() as folder:
        open_world = world.Opening(Path(folder), router, clock, meters)
        async with open_world(chunk_chars=120, chunk_overlap=20) as kb:
            for batch in batches:
                await asyncio.gather(*(do(kb, step) for step in batch))
            end = selection.millis(clock()) + 1
            await kb.graph.expire("acme", end)
            await kb.vectors.expire("acme", end)
            return await everything(kb)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=_STEPS)
async def test_history_leaves_nothing_behind(
    steps: list[Step], router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> None:
    last = {step.urn: step for step in steps}
    left = [[step] for step in last.values() if step.version is not None]
    assert await after([[step] for step in steps], router, clock, meters) == await after(left, router, clock, meters)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(versions=st.dictionaries(_URNS, st.integers(0, 2), min_size=2), order=st.randoms(use_true_random=False))
async def test_shuffled_twice_and_by_eight_at_once(
    versions: dict[str, int],
    order: random.Random,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
) -> None:
    steps = [Step(urn, version) for urn, version in versions.items()]
    crowd = [*steps, *steps, *steps][:8]
    order.shuffle(crowd)
    expected = await after([[step] for step in steps], router, clock, meters)
    assert await after([crowd, steps], router, clock, meters) == expected


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(kept=st.integers(0, 2), deleted=st.integers(0, 2), at_once=st.booleans())
async def test_deleted_is_as_if_never_ingested(
    kept: int, deleted: int, at_once: bool, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> None:
    mine, theirs = Step("note:3", kept), Step("email::<1@a>", deleted)
    both = [[mine, theirs]] if at_once else [[theirs], [mine]]
    alone = await after([[mine]], router, clock, meters)
    assert await after([*both, [Step(theirs.urn, None)]], router, clock, meters) == alone
