"""The decision agent answers a question of a user for a run, against the real knowledge base and its token of runs."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pymongo
import pytest

from contracts.tokens import runtoken
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from kb import api
from kb import client as kb_client
from orchestrator_job.run import consult
from orchestrator_job.store.graph_state import State
from tests import ports, waiting
from tests.fakes.ollama import process
from tests.kb.agent import rig
from tests.kb.service import program
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.run.test_real_kb import settings

pytestmark = pytest.mark.services
_SECRET = b"k" * 48
_MANUAL = "The operating voltage of the pump P-7 is 230 volts. Switch it off before the filter is changed."
_SEARCH = rig.decided("fast_vector_search", "A factual question", query="operating voltage")
_WRITE = rig.decided("text_response", "Have enough context")
_SAID = 'The voltage is 230 volts: "The operating voltage of the pump P-7" [1].'
_GATE = f"model-{uuid.uuid4()}"
_STALL = {"fault": {"stall": {"afterBytes": 0, "gate": _GATE}}}
INTENT = "job.intent/v1"
ON = {"JERVIS_USE_DECISION_AGENT": "true"}


@dataclass
class Place:
    """The knowledge base of a test, with a client that may do all, and a task that asks."""

    kb: kb_client.Client
    owner: scope.Scope
    desk: Desk
    token: Path

    def signed(self, where: scope.Scope) -> None:
        run = runtoken.Run(
            task_uid=self.desk.task.uid, namespace="jervis", attempt=1, scope=where, mode=Mode.FOREGROUND,
            ceiling=Priority.P1,
        )  # fmt: skip
        keys = runtoken.ring([_SECRET])
        self.token.write_text(runtoken.Signer(lambda: keys, lambda: datetime.now(UTC)).sign(run, timedelta(hours=1)))

    def asks(self, content: str = "What is the operating voltage?", **more: Any) -> None:
        self.desk.remember(scope=self.owner.model_dump(by_alias=True), content=content, **more)

    async def rule(self, content: str) -> None:
        draft = api.RuleDraft(
            scope=self.owner, rule_key="r", rule_type=api.RuleType.CUSTOM, rule_content=content, created_by="jana"
        )
        await self.kb.rules.put(draft)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, mongodb_uri: str, simulator: process.Fake) -> Iterator[str]:
    """One knowledge base for all tests, each with a client of its own."""
    folder = tmp_path_factory.mktemp("kb")
    keys = folder / "keys"
    keys.mkdir()
    (keys / "signing").write_bytes(_SECRET)
    name = f"test_consult_{uuid.uuid4().hex[:12]}"
    own = {"JERVIS_KB_RUN_TOKEN_KEYS": str(keys), "JERVIS_KB_DECISION_MODEL": rig.MODEL}
    with asyncio.Runner() as runner:
        made = program.running(folder, ports.free(), settings(mongodb_uri, name, simulator.url) | own)
        try:
            yield runner.run(made.__aenter__()).url
        finally:
            runner.run(made.__aexit__(None, None, None))
            mongo: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(mongodb_uri)
            mongo.drop_database(name)
            mongo.close()


@pytest.fixture
async def place(tmp_path: Path, desk: Desk, serving: str) -> AsyncIterator[Place]:
    token = tmp_path / "token"
    owner = scope.Scope(client_id=f"test{uuid.uuid4().hex[:12]}", project_id="pumps")
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as http:
        kb = kb_client.Client(serving, http)
        manual = {"source_urn": "manual::pump", "kind": "manual", "title": "Pump manual", "content": _MANUAL}
        await kb.ingest(api.IngestRequest.model_validate({"scope": owner, **manual}))
        desk.task.environment |= {"JERVIS_KB_URL": serving, "JERVIS_RUN_TOKEN_FILE": str(token)}
        desk.task.environment |= {"JERVIS_UNAVAILABLE_SECONDS": "3"} | ON
        made = Place(kb, owner, desk, token)
        made.signed(owner)
        made.asks()
        desk.fake.forget()
        yield made


def scripted(fake: process.Fake, *decisions: Any, said: str = _SAID) -> None:
    fake.set_script({rig.DECIDE: list(decisions or (_SEARCH, _WRITE)), rig.ANSWER: [said]})


async def test_the_answer_with_its_evidence_is_the_task_s_result(place: Place, fake: process.Fake) -> None:
    scripted(fake)
    ended = await place.desk.ends("Answered")
    assert ended.message["summary"] == _SAID
    result = place.desk.result()
    assert (result["citations"], result["model"], result["answer"]) == ([1], rig.MODEL, _SAID)
    [cited] = [one for one in result["evidence"] if one["id"] == 1]
    assert (cited["source"], cited["title"], cited["origin"]) == ("manual::pump", "Pump manual", "RAG")
    assert cited["chunkId"]
    assert _MANUAL in cited["content"]
    # The run itself asked what is wanted, and nothing else. Its token has a ceiling, which every call of the agent has.
    assert (fake.count(tag=INTENT), fake.count(tag=job.TAG)) == (1, 0)
    assert {one["priority"] for tag in (rig.DECIDE, rig.ANSWER) for one in fake.requests(tag=tag)} == {"1"}
    # What it cost is in the budget of the round and in the trace of its node.
    spent, step = place.desk.spent(), place.desk.fence()["steps"]["r1"]["consult"]
    assert (spent["llmCalls"], step["llmCalls"], step["status"]) == (4, 3, "COMPLETED")
    assert spent["tokens"] > step["tokens"] > 0
    assert "evidence" not in place.desk.fence()["steps"]["r1"]


def test_what_is_not_rated_is_not_taken_for_certain() -> None:
    edge = {"ref": 1, "chunkId": "c1", "sourceUrn": "m::1", "source": "a", "target": "b", "text": "Jana was asked."}
    passage = {"ref": 1, "chunkId": "c1", "sourceUrn": "m::1", "text": "Nine bar. Jana was asked.", "confidence": 0.31}
    seen = {"ref": 2, "key": "seen:p", "sourceUrn": "f::1", "page": 2, "interpretation": "It may be a valve."}
    far = {"ref": 3, "chunkId": "c3", "sourceUrn": "m::3", "text": "far away", "confidence": 0.0}
    read = consult.Read()
    for one in (edge, passage, seen, far, edge):
        read.note([one])
    assert [(one.confidence, one.content) for one in consult.items(read, 1000)] == [
        (0.31, "Nine bar. Jana was asked."), (0.5, "It may be a valve."), (0.0, "far away"),
    ]  # fmt: skip


def test_the_page_of_what_is_cited_is_that_of_the_citation() -> None:
    starts, text = [[0, 2], [15, 3], [43, 0]], "Page two text. The valve opens at nine bar. An annex."
    read = consult.Read()
    for ref in (1, 2, 3):
        read.note(
            [{"ref": ref, "chunkId": f"c{ref}", "title": "Manual", "text": text, "page": 2, "pageStarts": starts}]
        )
    read.note([{"ref": 4, "key": "page:p", "title": "Manual", "text": "a drawing", "pageNumber": 5}])
    read.note([{"ref": 5, "chunkId": "c5", "title": "Manual", "text": "one page", "page": 6}])
    cited = [
        api.Citation(ref=1, source_urn="m::1", page=3, quotes=["The valve opens at nine bar"]),
        api.Citation(ref=2, source_urn="m::1", page=None, quotes=["An annex"]),
    ]
    read.end = api.AgentEvent(type="complete", outcome="answered", citations=cited)
    assert [one.title for one in consult.items(read, 1000)] == [
        "Manual, page 3", "Manual", "Manual, pages 2-3", "Manual, page 5", "Manual, page 6",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "delegates", "consulted"),
    [
        ({"kind": "advice"}, False, True),
        ({"kind": "respond"}, True, True),
        # The graph of delegations has the tools for it; the other one answers, and says that it was not done.
        ({"kind": "respond", "effects": ("sendMail",)}, False, True),
        ({"kind": "respond", "effects": ("sendMail",)}, True, False),
        ({"kind": "code"}, False, False),
        ({"kind": "epic"}, True, False),
        ({"kind": "generative"}, False, False),
    ],
)
def test_what_is_ordered_is_worked_on(wanted: dict[str, Any], *, delegates: bool, consulted: bool) -> None:
    state: State = {"round": 1, "intent": {"round": 1, **wanted}}
    assert consult.consults(state, delegates=delegates) is consulted
    # What no model has said is a question.
    assert consult.consults({"round": 1}, delegates=delegates)


async def test_another_type_is_answered_as_ever(place: Place, fake: process.Fake) -> None:
    await place.desk.ends("Answered", [job.reply()], type="ScheduledTask")
    assert (fake.count(tag=rig.DECIDE), fake.count(tag=job.TAG)) == (0, 1)


async def test_what_is_not_known_is_asked_of_the_user(place: Place, fake: process.Fake) -> None:
    impossible = rig.decided("text_response", "Cannot complete: no manual says it") | {"impossible": True}
    scripted(fake, impossible, impossible)
    await place.desk.ends("NeedsInput")
    [question] = place.desk.result()["questions"]
    assert "Searched: fast_vector_search (1 call)" in question["text"]
    assert "The model says: Cannot complete: no manual says it" in question["text"]
    # The answer is in the next round's question.
    place.asks(answers=[{"id": question["id"], "text": "It is the pump P-7.", "author": "jana"}])
    fake.forget()
    scripted(fake)
    await place.desk.ends("Answered", attempt=1)
    assert "It is the pump P-7." in place.desk.prompts(rig.DECIDE)[0]


async def test_an_answer_that_a_person_has_to_approve_waits_for_it(place: Place, fake: process.Fake) -> None:
    await place.rule("enforce: needs-approval")
    scripted(fake)
    await place.desk.ends("NeedsApproval")
    assert place.desk.result()["answer"] == _SAID
    # Without a run the agent gives no such answer.
    with pytest.raises(kb_client.Rejected) as caught:
        async with place.kb.agent.ask(api.AgenticSearch(scope=place.owner, query="The voltage?")) as events:
            await anext(events)
    assert caught.value.status == 403


async def test_a_rule_of_the_task_s_scope_holds(place: Place, fake: process.Fake) -> None:
    await place.rule("enforce: never-say 230")
    fake.set_script({rig.DECIDE: [_SEARCH, _WRITE], rig.ANSWER: [_SAID, _SAID, "It is in the manual [1, page 2]."]})
    ended = await place.desk.ends("Answered")
    assert ended.message["summary"] == "It is in the manual [1]."


async def test_a_run_asks_in_its_own_scope_alone(place: Place, fake: process.Fake) -> None:
    place.signed(place.owner.model_copy(update={"project_id": "other"}))
    ended = await place.desk.task.run()
    assert ended.status != 0
    assert fake.count(tag=rig.DECIDE) == 0


async def test_the_calls_of_the_budget_are_an_end(place: Place, fake: process.Fake) -> None:
    place.asks(budget={"maxLlmCalls": 1})
    await place.desk.ends("BudgetExhausted")
    assert fake.count(tag=rig.DECIDE) == 0
    # With two there is one decision, and the answer follows.
    scripted(fake)
    await place.desk.ends("Answered", budget={"maxLlmCalls": 2})
    assert (fake.count(tag=rig.DECIDE), fake.count(tag=rig.ANSWER)) == (1, 1)
    assert place.desk.spent()["llmCalls"] == 2


async def test_the_end_of_the_time_hands_back_what_the_search_has_found(place: Place, fake: process.Fake) -> None:
    fake.set_script({rig.DECIDE: [_SEARCH, _STALL]})
    ended = await place.desk.task.run_out_of_time(30, lambda: fake.count(tag=rig.DECIDE) > 1)
    assert (ended.status, ended.message["exitReason"]) == (1, "DeadlineExceeded"), ended
    result = place.desk.result()
    assert _MANUAL in [one["content"] for one in result["evidence"]]
    assert result["answer"].startswith("No answer was written. Found:")


async def test_a_question_that_failed_is_tried_again_by_the_operator(place: Place, fake: process.Fake) -> None:
    """The calls that were booked for it are those of the next question: none of them was made."""
    place.asks(budget={"maxLlmCalls": 2})
    fake.set_script({rig.DECIDE: [{"fault": {"status": {"code": 503, "retryAfter": 60}}}] * 2})
    for _ in range(2):
        await place.desk.ends("Unavailable", JERVIS_UNAVAILABLE_SECONDS="0")
    scripted(fake)
    await place.desk.ends("Answered")
    assert place.desk.spent()["llmCalls"] == 2


async def test_an_answer_that_is_read_again_is_not_refused_for_what_it_has_cost(
    place: Place, fake: process.Fake
) -> None:
    """The process dies after the answer and before its checkpoint, and the answer has used up the tokens."""
    scripted(fake)
    await place.desk.ends("Answered")
    spent = place.desk.spent()["tokens"]
    for name in ("orchestrator_checkpoints", "orchestrator_checkpoint_writes", "orchestrator_ledger", "task_results"):
        place.desk.store.database[name].delete_many({})
    ended = await place.desk.ends("Answered", budget={"maxTokens": spent})
    assert ended.message["summary"] == _SAID
    assert place.desk.spent()["tokens"] == spent


async def test_a_stopped_run_ends_the_search_and_the_next_one_asks_again(place: Place, fake: process.Fake) -> None:
    fake.set_script({rig.DECIDE: [_STALL]})
    running = place.desk.task.start(JERVIS_DRAIN_GRACE_SECONDS="0.2")
    await waiting.eventually(lambda: fake.count(tag=rig.DECIDE, outcome="running") == 1)
    running.process.send_signal(signal.SIGTERM)
    drained = await place.desk.task.end(running)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    await waiting.eventually(lambda: fake.count(tag=rig.DECIDE, outcome="cancelled") == 1)
    scripted(fake)
    ended = await place.desk.ends("Answered")
    assert ended.message["summary"] == _SAID


async def test_a_run_that_died_is_followed_by_one_that_reads_the_same_stream(place: Place, fake: process.Fake) -> None:
    fake.set_script({rig.DECIDE: [_SEARCH, _STALL]})
    running = place.desk.task.start()
    await waiting.eventually(lambda: fake.count(tag=rig.DECIDE) == 2)
    await waiting.eventually(lambda: bool(place.desk.fence().get("consulted", {}).get("r1", {}).get("stream")))
    running.process.kill()
    await place.desk.task.end(running)
    again = place.desk.task.start()
    await again.logged("thread")
    scripted(fake, _WRITE)
    fake.open_gate(_GATE)
    ended = await place.desk.task.end(again)
    assert (ended.message["exitReason"], ended.message["summary"]) == ("Answered", _SAID)
    # The decision that waited was made: nothing was asked anew, and nothing is counted twice.
    assert (fake.count(tag=rig.DECIDE), fake.count(tag=rig.ANSWER)) == (2, 1)
    assert place.desk.spent()["llmCalls"] == 4
