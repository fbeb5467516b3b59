"""A traced run with delegations: agents within their branches, tools and model calls within agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.controllers.test_tracing import Collector, attributes, collector
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.model.test_telemetry import CHAT, TRACED
from tests.orchestrator_job.run.test_delegation_runs import FOREIGN, ORDER, script

pytestmark = pytest.mark.services
__all__ = ["collector"]


def below(spans: Sequence[Any], parent: Any) -> list[str]:
    """Names of the spans within another, in order."""
    return [one.name for one in spans if one.parent_span_id == parent.span_id]


def named(spans: Sequence[Any], name: str) -> Any:
    [found] = [one for one in spans if one.name == name]
    return found


async def test_the_tree_of_agents_tools_and_model_calls(desk: Desk, collector: Collector) -> None:
    await desk.delegates(**TRACED).ends("Answered", script(), content=ORDER)
    spans = collector.sent()
    run = named(spans, "run")
    assert below(spans, run) == [
        *("job.intake", "job.evidence", "job.plan_delegations"),
        *("job.execute_delegation", "job.execute_delegation", "job.consent", "job.execute_delegation", "job.consent"),
        *("job.synthesize", "job.approve", "job.finalize"),
    ]
    # The first two run side by side: which of them begins first is not said.
    branches = sorted(
        (one for one in spans if one.name == "job.execute_delegation"),
        key=lambda one: attributes(one)["jervis.delegation"],
    )
    assert [attributes(one)["jervis.delegation"] for one in branches] == ["r1.d1", "r1.d2", "r1.d3"]
    agents = [named(spans, f"invoke_agent {name}") for name in ("Research", "Legal", "Email")]
    assert [one.parent_span_id for one in agents] == [one.span_id for one in branches]
    assert below(spans, agents[0]) == [CHAT, "execute_tool search_knowledge", CHAT]
    assert below(spans, agents[2]) == [CHAT, "execute_tool send_mail", CHAT]
    assert attributes(agents[0]) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "ollama",
        "gen_ai.agent.name": "Research",
        "gen_ai.request.model": job.MODEL,
        "gen_ai.conversation.id": "talk-7",
        "jervis.delegation": "r1.d1",
        "jervis.success": True,
        "jervis.confidence": 0.9,
    }
    assert attributes(named(spans, "execute_tool send_mail")) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send_mail",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "Email",
        "gen_ai.conversation.id": "talk-7",
    }
    assert below(spans, named(spans, "job.plan_delegations")) == below(spans, named(spans, "job.synthesize")) == [CHAT]
    sent = b"".join(request.SerializeToString() for request in collector.requests)
    for word in (b"a@example.com", b"contract", b"Friday", b"release of the router"):
        assert word not in sent


async def test_a_call_that_waits_for_a_person_is_no_error_and_is_not_done_twice(
    desk: Desk, collector: Collector
) -> None:
    await desk.delegates(**TRACED).ends("NeedsApproval", script(FOREIGN), content=ORDER)
    held = named(collector.sent(), "execute_tool send_mail")
    assert attributes(held)["jervis.waiting"] is True
    assert held.status.code == 0
    assert attributes(named(collector.sent(), "invoke_agent Email"))["jervis.waiting"] is True
    collector.requests.clear()
    # The same request again: nothing is asked of a model, and nothing that is in the journal has a span.
    await desk.ends("NeedsApproval")
    assert [one.name for one in collector.sent() if one.name.startswith(("chat", "execute_tool"))] == []
