"""A sweep against the real apiserver and MongoDB pauses after each task, unless too many wait for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controllers import courtesy, kube
from controllers.archive import mongo, reconcile, sweep
from controllers.metrics import Metrics
from tests.operator.conftest import Space, database_name
from tests.operator.process import Operator
from tests.operator.test_archive import finish

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


@pytest.mark.parametrize(("pile", "pauses"), [(3, 3), (2, 0)])
async def test_a_sweep_pauses_after_each_task_unless_too_many_wait(
    space: Space,
    start: Callable[..., AbstractContextManager[Operator]],
    database: Any,
    kubeconfig: Path,
    mongodb_uri: str,
    pile: int,
    pauses: int,
) -> None:
    finish(space, start, "one", "two", "three")
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    ticks = iter(range(100))
    loaded = kube.configuration(str(kubeconfig))
    with closing(mongo.Archive(mongodb_uri, database_name(space), fence=lambda: None)) as archive:
        async with kube.session(loaded) as http:
            archivist = reconcile.Archivist(
                kube.Kube(loaded, http, fence=lambda: None),
                archive,
                namespaces=[space.name],
                terms=sweep.Terms(),
                pace=reconcile.Pace(pile=pile),
                ran=lambda uid: False,
                measured=Metrics(CollectorRegistry()),
                wall=lambda: datetime.now(UTC),
                polite=courtesy.Courtesy(lambda: True, monotonic=lambda: next(ticks) / 10, sleep=pause),
            )
            await archivist.once()
    assert {one["name"] for one in database["task_archive"].find()} == {"one", "two", "three"}
    assert paused == pytest.approx([0.3] * pauses)
