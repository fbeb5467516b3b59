"""A traced task: its id in the status, its parent in what is called for it, its spans at the collector, its log."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from crds import trace
from tests.controllers.test_tracing import Collector, collector
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]

__all__ = ["collector"]


def test_one_trace_from_the_object_to_the_run(
    space: Space, start: Start, knowledge: Knowledge, collector: Collector
) -> None:
    with Kubelet(space.api, space.name), start(TRACING="true") as operator:
        uid = space.submit("work", type="UserTask", mode="Foreground", correlationId="chat-7")["metadata"]["uid"]
        until(lambda: space.phase("work") == "Completed", "it is completed")
        assert space.status("work")["traceId"] == uid.replace("-", "")
        assert knowledge.parents == [trace.parent(uid)]
        variables = {one.name: one.value for one in space.jobs()[0].spec.template.spec.containers[0].env}
        assert variables["JERVIS_TRACEPARENT"] == trace.parent(uid)
        assert operator.stop() == 0
        spans = collector.spans()
        assert {span.trace_id.hex() for span in spans.values()} == {uid.replace("-", "")}
        assert {"Qualifying", "Orchestrating", "task UserTask"} <= set(spans)
        lines = [json.loads(line) for line in operator.log.read_text().splitlines() if line.startswith("{")]
        about = [line for line in lines if line.get("task") == "work"]
        assert about
        assert {(line["uid"], line["correlation_id"]) for line in about} == {(uid, "chat-7")}
        assert about[-1]["trace_id"] == uid.replace("-", "")


def test_untraced_by_default(space: Space, start: Start, knowledge: Knowledge) -> None:
    with start():
        space.submit("info", "INFO")
        until(lambda: space.phase("info") == "Done", "it is done")
        assert "traceId" not in space.status("info") or space.status("info")["traceId"] == ""
        assert knowledge.parents == [None]
