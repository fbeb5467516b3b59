"""A traced run at a collector: its steps within it, it within the task, and every service called with the step."""

from __future__ import annotations

import socket

import pytest

from orchestrator_job.answer import model_answer
from router.client import asking
from tests.controllers.test_tracing import Collector, attributes, collector
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services
__all__ = ["collector"]
PARENT = "00-0f9a1c2e5b7d4e219a553c2f6d8b1e00-00f067aa0ba902b7-01"
TRACED = {"JERVIS_TRACING": "true", "JERVIS_TRACEPARENT": PARENT}
NODES = {"job.intake", "job.evidence", "job.respond", "job.approve", "job.finalize"}
CHAT = f"chat {job.MODEL}"


async def test_every_step_and_every_model_call_is_a_span(desk: Desk, collector: Collector) -> None:
    ended = await desk.run([job.reply()], **TRACED)
    assert ended.status == 0
    found = collector.spans()
    run, chat = found.pop("run"), found.pop(CHAT)
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == (PARENT[3:35], PARENT[36:52])
    assert attributes(run)["jervis.exit_reason"] == "Answered"
    assert set(found) == NODES
    assert {span.parent_span_id for span in found.values()} == {run.span_id}
    assert {attributes(span)["gen_ai.conversation.id"] for span in found.values()} == {"talk-7"}
    assert desk.known.parents == [f"00-{PARENT[3:35]}-{found['job.evidence'].span_id.hex()}-01"]
    assert (chat.parent_span_id, chat.kind) == (found["job.respond"].span_id, 3)
    about = attributes(chat)
    [ended_by] = about.pop("gen_ai.response.finish_reasons").values
    assert ended_by.string_value == "stop"
    assert about.pop("gen_ai.usage.input_tokens") > 0
    assert about.pop("gen_ai.usage.output_tokens") > 0
    assert about == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": job.MODEL,
        "gen_ai.request.max_tokens": model_answer.TOKENS + asking.THOUGHTS,
        "gen_ai.response.model": job.MODEL,
        "gen_ai.output.type": "json",
        "gen_ai.conversation.id": "talk-7",
    }


async def test_a_retried_call_is_a_span_of_its_own_with_its_error(desk: Desk, collector: Collector) -> None:
    desk.fake.set_faults([{"match": {"tag": job.TAG}, "nth": 1, "status": {"code": 503, "retryAfter": 0}}])
    assert (await desk.run([job.reply()], **TRACED)).status == 0
    chats = [span for span in collector.sent() if span.name == CHAT]
    assert [attributes(span).get("error.type") for span in chats] == ["Unavailable", None]
    assert [span.status.message for span in chats] == ["Unavailable", ""]


async def test_no_span_has_a_word_of_the_task(desk: Desk, collector: Collector) -> None:
    assert (await desk.run([job.reply()], **TRACED)).status == 0
    sent = b"".join(request.SerializeToString() for request in collector.requests)
    for word in (b"release", b"router is", b"Friday", b"Ann", b"evidence>"):
        assert word not in sent


async def test_a_drained_run_sends_what_it_did(desk: Desk, collector: Collector) -> None:
    await desk.stops([job.STALL, job.reply()], **TRACED)
    found = collector.spans()
    assert set(found) == {"run", "job.intake", "job.evidence", "job.respond", CHAT}
    assert attributes(found["run"])["jervis.exit_reason"] == "Drained"
    assert attributes(found[CHAT])["error.type"] == "CancelledError"


async def test_an_untraced_task_has_no_spans_of_its_run(desk: Desk, collector: Collector) -> None:
    assert (await desk.run([job.reply()], JERVIS_TRACING="true")).status == 0
    assert collector.requests == []


async def test_without_an_endpoint_there_are_no_spans_and_the_trace_is_passed_on(
    desk: Desk, collector: Collector
) -> None:
    assert (await desk.run([job.reply()], **TRACED, OTEL_EXPORTER_OTLP_ENDPOINT="")).status == 0
    assert (collector.requests, desk.known.parents) == ([], [PARENT])


@pytest.mark.parametrize("silent", [True, False])
async def test_a_collector_that_is_away_or_silent_fails_no_task(desk: Desk, collector: Collector, silent: bool) -> None:
    collector.away = True
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}" if silent else collector.url
        await desk.ends("Answered", [job.reply()], **TRACED, OTEL_EXPORTER_OTLP_ENDPOINT=url)
