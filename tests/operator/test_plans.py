"""What became of a run's plan, as a person sees it on the task and in the metrics: real apiserver, real operator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.operator import kubelet
from tests.operator.conftest import Space
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
PLANS = {"planned": "Made", "amended": "Amended", "failed": "Failed"}


def said(task: str, attempt: int) -> dict[str, Any]:
    plan = {"plan": PLANS[task]} if task in PLANS else {}
    return {**kubelet.answered(task, attempt), **plan}


def test_the_status_and_the_metric_say_what_became_of_a_plan(space: Space, start: Start, gpu: str) -> None:
    names = [*PLANS, "unplanned"]
    with kubelet.Kubelet(space.api, space.name, said), start() as operator:
        space.backend(gpu, slots=4)
        for name in names:
            space.submit(name, "Replace the disk.")
        until(lambda: space.phases() == dict.fromkeys(names, "Completed"), "all have run")
        assert {name: space.status(name)["result"].get("plan") for name in names} == {**PLANS, "unplanned": None}
        for outcome in PLANS.values():
            assert operator.metric(f'jervis_operator_plans_total{{outcome="{outcome}"}}') == 1
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0
