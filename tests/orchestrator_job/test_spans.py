"""A traced run at a collector: its steps within it, it within the task, and whoever it calls told of the step."""

from __future__ import annotations

import pytest

from tests.controllers.test_tracing import Collector, attributes, collector
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge

pytestmark = pytest.mark.services
__all__ = ["collector"]
PARENT = "00-0f9a1c2e5b7d4e219a553c2f6d8b1e00-00f067aa0ba902b7-01"


async def test_every_step_is_a_span(
    task: job.Job, fake: process.Fake, known: knowledge.Knowledge, collector: Collector
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    ended = await task.run(JERVIS_TRACING="true", JERVIS_TRACEPARENT=PARENT)
    assert ended.status == 0
    found = collector.spans()
    run = found.pop("run")
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == (PARENT[3:35], PARENT[36:52])
    assert attributes(run)["jervis.exit_reason"] == "Answered"
    assert set(found) == {"job.intake", "job.evidence", "job.respond", "job.approve", "job.finalize"}
    assert {span.parent_span_id for span in found.values()} == {run.span_id}
    assert known.parents == [f"00-{PARENT[3:35]}-{found['job.evidence'].span_id.hex()}-01"]


async def test_an_untraced_task_has_no_spans_of_its_run(
    task: job.Job, fake: process.Fake, collector: Collector
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    assert (await task.run(JERVIS_TRACING="true")).status == 0
    assert collector.requests == []
