"""POST /api/v1/agentic_search: the stream, hanging up, coming back, conversations, erasure."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from contracts.tokens import runtoken
from crds import access as accesses
from crds import scope
from crds.priority import Priority
from kb import api, client, errors, metrics, mongo
from kb.agent import running, store, tree
from kb.erasure import closed, holdings
from tests import ports, waiting
from tests.conftest import ROOT
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import forwarder, imposters, scopes, world
from tests.kb.agent import rig
from tests.kb.agent.conftest import NewSite
from tests.kb.agent.rig import SAID, SEARCH, STALL, WRITE
from tests.kb.rules import test_enforce
from tests.kb.service import callers
from tests.kb.service.callers import refused, rejected

pytestmark = pytest.mark.services
EXAMPLE = ROOT / "examples" / "ask" / "client.py"


def asked(
    question: str = "What is the operating voltage?", viewer: scope.Scope = scopes.SHOP, **more: Any
) -> api.AgenticSearch:
    return api.AgenticSearch(scope=viewer, query=question, **more)


async def answered(kb_client: client.Client, request: api.AgenticSearch) -> list[api.AgentEvent]:
    async with kb_client.agent.ask(request) as events:
        return [one async for one in events]


def scripted(fake: process.Fake, times: int = 1) -> None:
    fake.forget()
    fake.set_script({rig.DECIDE: [SEARCH, WRITE] * times, rig.ANSWER: [SAID] * times})


async def test_the_stream_of_an_answer(served: rig.Questions, fake: process.Fake, meters: metrics.Metrics) -> None:
    scripted(fake)
    found = await answered(served.client, asked())
    assert [one.id for one in found] == list(range(1, len(found) + 1))
    assert rig.kinds(found) == ["status", "decision", "status", "result", "decision", "status", "token", "complete"]
    assert (found[0].stream or "", rig.text(found), found[-1].outcome) == ("0" * 14 + "61" + "0" * 16, SAID, "answered")
    assert {one["priority"] for one in fake.requests(tag=rig.DECIDE)} == {"1"}
    assert meters.registry.get_sample_value("jervis_kb_agent_questions_total", {"outcome": "answered"}) == 1

    scripted(fake)
    body = asked().model_dump(mode="json", by_alias=True, exclude_none=True)
    raw = await served.http.post("/api/v1/agentic_search", json=body, headers={"X-Ollama-Priority": "P2"})
    assert raw.headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(one) for one in raw.text.splitlines()]
    assert [one["id"] for one in lines] == list(range(1, len(lines) + 1))
    written = [one["content"] for one in lines if one["type"] == "token"]
    assert ("".join(written), lines[6]["type"]) == (SAID, "token")
    assert {one["priority"] for one in fake.requests(tag=rig.DECIDE)} == {"2"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": None}, "scope"),
        ({"scope": {"projectId": "shop"}}, "scope.clientId"),
        ({"query": ""}, "query"),
        ({"conversation": "a b"}, "conversation"),
        ({"maxIterations": 0}, "maxIterations"),
        ({"resumeSeconds": 301}, "resumeSeconds"),
        ({"tools": ["delete"]}, "tools"),
    ],
)
async def test_a_wrong_question_names_its_field(http: httpx.AsyncClient, change: dict[str, Any], field: str) -> None:
    body = {"scope": {"clientId": "acme"}, "query": "a"} | change
    assert refused(await http.post("/api/v1/agentic_search", json=body)) == (422, field)


async def test_hanging_up_cancels_the_call_of_the_model(
    kb_client: client.Client, fake: process.Fake, meters: metrics.Metrics
) -> None:
    fake.set_script({rig.DECIDE: [STALL]})
    async with kb_client.agent.ask(asked()) as events:
        assert (await anext(events)).type == "status"
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))
    await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="cancelled"))
    await waiting.eventually(lambda: _sample(meters, "jervis_kb_agent_questions_total", outcome="cancelled"))
    assert meters.registry.get_sample_value("jervis_kb_agent_running") == 0


async def count(fake: process.Fake, **match: str) -> bool:
    return bool(await asyncio.to_thread(lambda: fake.count(**match)))


def _sample(meters: metrics.Metrics, name: str, **labels: str) -> bool:
    return bool(meters.registry.get_sample_value(name, labels))


async def test_a_stream_is_resumed_after_an_id_by_another_process(
    new_site: NewSite, kb_client: client.Client, fake: process.Fake
) -> None:
    fake.set_script({rig.DECIDE: [SEARCH, {"fault": {"stall": {"gate": "later"}}}], rig.ANSWER: [SAID]})
    async with kb_client.agent.ask(asked(resume_seconds=60)) as events:
        first = [await anext(events) for _ in range(3)]
    stream = first[0].stream or ""
    other = new_site("b")
    async with other.over() as (resumed, _):
        async with resumed.agent.resume(scopes.SHOP, stream, after=first[-1].id) as events:
            fourth = await anext(events)
            assert (fourth.id, fourth.type) == (4, "result")
            # The call that stalled is answered by the next of the script.
            fake.set_script({rig.DECIDE: [WRITE], rig.ANSWER: [SAID]})
            fake.open_gate("later")
            rest = [one async for one in events]
        assert [one.id for one in rest] == list(range(5, 5 + len(rest)))
        assert rest[-1].type == "complete"
        async with resumed.agent.resume(scopes.SHOP, stream) as events:
            whole = [one async for one in events]
        assert [one.id for one in whole] == list(range(1, len(whole) + 1))
        for viewer in (scopes.BLOG, scopes.ACME, scopes.OTHER):
            with pytest.raises(client.Rejected) as caught:
                async with resumed.agent.resume(viewer, stream) as events:
                    await anext(events)
            assert caught.value.code == "not_found"


def the_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ask_example", EXAMPLE)
    assert spec
    assert spec.loader
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


class Proxied:
    """The example behind a proxy whose service goes away in the middle of an answer. `pauses` are its waits in seconds;
    they take no time. After `away` of them the service is there again."""

    def __init__(self, site: rig.Questions, fake: process.Fake, away: int = 1000) -> None:
        self.pauses: list[float] = []
        # A gate that was opened stays open, also for other tests.
        self._gate = uuid.uuid4().hex
        stalled = {"fault": {"stall": {"gate": self._gate}}}
        fake.set_script({rig.DECIDE: [SEARCH, stalled], rig.ANSWER: [SAID]})
        self._site, self._fake, self._away = site, fake, away

    async def main(self, instead: imposters.Server | None = None) -> int:
        """Its exit status. `instead` answers on the proxy's port while the service is away."""
        async with self._site.over() as (_, http):
            way = forwarder.Forwarder("127.0.0.1", http.base_url.port or 0, ports.free())
            await way.up()
            gone, loop, base = threading.Event(), asyncio.get_running_loop(), f"http://127.0.0.1:{way.port}"
            with contextlib.ExitStack() as standing:

                def pause(seconds: float) -> None:
                    assert gone.wait(waiting.PATIENCE)
                    self.pauses.append(seconds)
                    if len(self.pauses) == self._away:
                        standing.close()
                        asyncio.run_coroutine_threadsafe(way.up(), loop).result(waiting.PATIENCE)

                def run() -> int:
                    return int(the_example().main(base, "acme", "shop", "What is the operating voltage?", pause=pause))

                work = asyncio.create_task(asyncio.to_thread(run))
                await waiting.eventually(lambda: count(self._fake, tag=rig.DECIDE, outcome="running"))
                await way.down()
                if instead is not None:
                    instead.port = way.port
                    standing.enter_context(instead.listening())
                self._fake.open_gate(self._gate)
                gone.set()
                try:
                    return await work
                finally:
                    await way.down()


@pytest.mark.parametrize("proxy", [False, True], ids=["refused", "502"])
async def test_the_example_waits_longer_each_time_and_goes_on(
    site: rig.Questions, fake: process.Fake, capsys: pytest.CaptureFixture[str], proxy: bool
) -> None:
    example = Proxied(site, fake, away=5)
    instead = imposters.http("502 Bad Gateway", b"<html>bad gateway", "text/html") if proxy else None
    assert await example.main(instead) == 0
    assert capsys.readouterr().out.startswith(f"{SAID}\n[1] Pump manual")
    assert example.pauses == [0.5, 1, 2, 4, 8]
    assert instead is None or instead.asked == 4


async def test_the_example_ends_where_the_service_stays_away(
    site: rig.Questions, fake: process.Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Proxied(site, fake)
    assert await example.main() == 1
    assert example.pauses == [0.5, 1, 2, 4, 8, 8, 8]
    said = capsys.readouterr()
    assert said.out == ""
    assert "The answer cannot be read: the service has been away for 31.5 seconds (" in said.err


async def test_the_example_says_what_the_service_refuses(
    site: rig.Questions, capsys: pytest.CaptureFixture[str]
) -> None:
    example = the_example()
    async with site.over() as (_, http):
        assert await asyncio.to_thread(example.main, str(http.base_url), "acme", "shop", "") == 1
    assert "The answer cannot be read: 422" in capsys.readouterr().err
    assert await asyncio.to_thread(example.main, f"http://127.0.0.1:{ports.free()}", "acme", "shop", "Why?") == 1
    assert "The answer cannot be read: the service is away (" in capsys.readouterr().err


async def test_the_example_prints_the_answer_and_comes_back_by_itself(
    site: rig.Questions, fake: process.Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    example = the_example()
    question = "What is the operating voltage?"
    async with site.over() as (_, http):
        base = str(http.base_url)
        scripted(fake)
        assert await asyncio.to_thread(example.main, base, "acme", "shop", question) == 0
        out, err = capsys.readouterr()
        assert out.startswith(f"{SAID}\n[1] Pump manual manual::pump")
        assert "fast_vector_search: User asked factual question" in err
        broken = Breaking(base)
        scripted(fake)
        scope_ = {"clientId": "acme", "projectId": "shop"}
        found = await asyncio.to_thread(lambda: list(example.events(broken, scope_, question)))
    assert [one["id"] for one in found] == list(range(1, len(found) + 1))
    assert (found[-1]["outcome"], broken.asked) == ("answered", 2)


class Breaking(httpx.Client):
    """Its first answer breaks off after two lines."""

    def __init__(self, base: str) -> None:
        super().__init__(base_url=base, trust_env=False, timeout=60, verify=False)
        self.asked = 0

    def stream(self, *args: Any, **more: Any) -> Any:
        self.asked += 1
        return self._cut(*args, **more) if self.asked == 1 else super().stream(*args, **more)

    @contextmanager
    def _cut(self, *args: Any, **more: Any) -> Iterator[Any]:
        with super().stream(*args, **more) as answer:
            whole = answer.iter_lines

            def lines() -> Iterator[str]:
                for number, line in enumerate(whole()):
                    if number == 2:
                        raise httpx.ReadError("the connection broke")
                    yield line

            answer.iter_lines = lines  # type: ignore[method-assign]
            yield answer


async def test_a_reader_that_does_not_come_back_ends_the_question(kb_client: client.Client, fake: process.Fake) -> None:
    fake.set_script({rig.DECIDE: [STALL]})
    async with kb_client.agent.ask(asked(resume_seconds=0.5)) as events:
        stream = (await anext(events)).stream or ""
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))
    await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="cancelled"))
    async with kb_client.agent.resume(scopes.SHOP, stream, after=1) as events:
        late = [one async for one in events]
    assert ([one.type for one in late], late[-1].outcome) == (["error", "complete"], "cancelled")


@pytest.mark.parametrize("where", ["here", "another process"])
async def test_a_question_that_may_be_resumed_is_ended_at_once(
    new_site: NewSite, kb_client: client.Client, fake: process.Fake, where: str
) -> None:
    fake.set_script({rig.DECIDE: [STALL]})
    async with new_site("b").over() as (other, _):
        async with kb_client.agent.ask(asked(resume_seconds=60)) as events:
            stream = (await anext(events)).stream or ""
            await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))
            for viewer, name in ((scopes.BLOG, stream), (scopes.SHOP, "0" * 32), (scopes.SHOP, "a")):
                assert (await rejected(other.agent.stop(viewer, name))).code == "not_found"
            assert fake.count(tag=rig.DECIDE, outcome="running") == 1
            await (kb_client if where == "here" else other).agent.stop(scopes.SHOP, stream)
            rest = [one async for one in events]
        assert ([one.type for one in rest], rest[-1].outcome) == (["error", "complete"], "cancelled")
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="cancelled"))
        # One that is over stays as it is.
        await other.agent.stop(scopes.SHOP, stream)
        async with other.agent.resume(scopes.SHOP, stream, after=1) as events:
            assert [one.outcome async for one in events] == [None, "cancelled"]


async def test_a_conversation_remembers_in_its_scope_and_no_other(kb_client: client.Client, fake: process.Fake) -> None:
    for viewer, known in ((scopes.SHOP, False), (scopes.SHOP, True), (scopes.BLOG, False)):
        scripted(fake)
        if viewer == scopes.BLOG:
            impossible = rig.decided("text_response", "Cannot complete: x") | {"impossible": True}
            fake.set_script({rig.DECIDE: [impossible]})
        await answered(kb_client, asked("The voltage?", viewer, conversation="talk-1"))
        said = fake.requests(tag=rig.DECIDE)[0]["body"]["messages"][1]["content"]
        assert (f"Answer: {SAID}" in said) is known


async def test_what_was_deleted_or_taken_away_is_in_no_later_prompt(
    kb: world.ObservedState, kb_client: client.Client, fake: process.Fake
) -> None:
    async def remembered(viewer: scope.Scope) -> bool:
        scripted(fake)
        await answered(kb_client, asked("The voltage?", viewer, conversation="talk-1"))
        return SAID in fake.requests(tag=rig.DECIDE)[0]["body"]["messages"][1]["content"]

    assert [await remembered(scopes.SHOP) for _ in range(2)] == [False, True]
    # The manual in another version: what was said of the old one does not count any more.
    await kb.ingest(world.request("The pump has 400 volts now.", urn="manual::pump", kind="manual", title="Manual"))
    assert not await remembered(scopes.SHOP)


async def test_a_turn_rests_on_what_the_turns_before_it_rest_on(
    kb: world.ObservedState, kb_client: client.Client, fake: process.Fake
) -> None:
    for number in range(8):
        lease = f"The lease of office number {number} in Brno ends in May of the year."
        await kb.ingest(world.request(lease, urn=f"note::lease{number}", kind="note", title=f"Lease {number}"))
    scripted(fake)
    await answered(kb_client, asked("The voltage?", conversation="t"))
    fake.forget()
    leases = rig.decided("fast_vector_search", query="lease of the office in Brno ends in May")
    repeated = "The lease ends in May [1]. As said before, the operating voltage is 230 volts."
    fake.set_script({rig.DECIDE: [leases, WRITE], rig.ANSWER: [repeated]})
    question = "When does the lease of the office in Brno end, and what was said before?"
    found = await answered(kb_client, asked(question, conversation="t"))
    shown = {one["sourceUrn"] for event in found if event.type == "result" for one in event.objects or ()}
    assert "manual::pump" not in shown
    await kb.ingest(world.request("The pump has 400 volts now.", urn="manual::pump", kind="manual", title="Manual"))
    scripted(fake)
    await answered(kb_client, asked("And now?", conversation="t"))
    assert "230 volts" not in fake.requests(tag=rig.DECIDE)[0]["body"]["messages"][1]["content"]


async def test_an_owner_has_so_many_conversations(
    site: rig.Questions, database: mongo.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_NAMES", 2)
    talks = {}
    for name in ("a", "b", "c"):
        talks[name] = await site.conversations.open(scopes.SHOP, name)
        await site.conversations.add(scopes.SHOP, talks[name], tree.Turn("q", name))
    other = await site.conversations.open(scopes.BLOG, "a")
    assert other.turns == ()
    assert not await site.conversations.add(scopes.SHOP, talks["a"], tree.Turn("q", "late"))
    left = sorted([one["answer"] async for one in database[store.CONVERSATIONS].find({"answer": {"$exists": True}})])
    assert left == ["b", "c"]


async def test_a_rule_that_keeps_a_source_back_keeps_the_conversation_back(
    served: rig.Questions, fake: process.Fake
) -> None:
    scripted(fake)
    await answered(served.client, asked(conversation="talk-1"))
    await served.rules.put(test_enforce.draft("enforce: never-use-source secret::*", rule_type=api.RuleType.SECURITY))
    scripted(fake)
    await answered(served.client, asked(conversation="talk-1"))
    assert "230" not in fake.requests(tag=rig.DECIDE)[0]["body"]["messages"][1]["content"]


async def test_an_answer_that_a_person_has_to_approve_is_not_given(served: rig.Questions, fake: process.Fake) -> None:
    rule = test_enforce.draft("enforce: needs-approval", owner=scopes.ACME, rule_type=api.RuleType.SECURITY)
    await served.rules.put(rule)
    caught = await rejected(answered(served.client, asked()))
    assert (caught.status, "PendingTask" in (caught.remedy or "")) == (403, True)
    assert fake.count(tag=rig.DECIDE) == 0


async def test_an_erasure_takes_streams_and_conversations_and_they_do_not_come_back(
    served: rig.Questions, database: mongo.Database, fake: process.Fake
) -> None:
    scripted(fake)
    await answered(served.client, asked(conversation="talk-1", resume_seconds=60))
    before = await served.conversations.open(scopes.SHOP, "talk-1")
    recorder = await served.streams.open("c" * 32, scopes.SHOP)
    assert len(before.turns) == 1

    async def left() -> list[int]:
        names = (store.STREAMS, store.EVENTS, store.CONVERSATIONS)
        return [await database[name].count_documents({}) for name in names]

    await waiting.eventually(lambda: complete(database))
    served.shut.replace([scopes.SHOP])
    with pytest.raises(client.Unavailable):
        await answered(served.client, asked(conversation="talk-1"))
    assert not await served.conversations.add(scopes.SHOP, before, tree.Turn("q", "secret"))
    for one in holdings.of(database).values():
        await one.erase(scopes.SHOP)
    assert await left() == [0, 0, 0]
    served.shut.replace([])
    # What began before the erasure writes nothing after it.
    assert not await served.conversations.add(scopes.SHOP, before, tree.Turn("q", "secret"))
    late = [api.AgentEvent(id=1, type="token", content="secret")]
    assert await recorder.write(late, done=True) is store.Kept.GONE
    assert await left() == [0, 0, 0]
    assert (await served.conversations.open(scopes.SHOP, "talk-1")).turns == ()


async def complete(database: mongo.Database) -> bool:
    return bool(await database[store.STREAMS].count_documents({"done": True}))


async def test_what_is_over_goes(database: mongo.Database) -> None:
    clock = clocks.Clock()
    numbers = itertools.count()
    shut = closed.Closed()
    talks = store.Conversations(database, clock, shut, lambda: f"{next(numbers)}", life=timedelta(days=7))
    talk = await talks.open(scopes.SHOP, "t")
    assert await talks.add(scopes.SHOP, talk, tree.Turn("q", "a"))
    streams = store.Streams(database, clock, shut, life=timedelta(minutes=10))
    recorder = await streams.open("a" * 32, scopes.SHOP)
    await recorder.write([api.AgentEvent(id=1, type="token", content="words of a document")], done=True)
    tables = [database[name] for name in (store.STREAMS, store.EVENTS, store.CONVERSATIONS)]

    async def tidied() -> list[int]:
        """By the loop of a process to which no question comes."""
        turns = iter([None])

        async def sleep(seconds: float) -> None:
            next(turns)

        questions: Any = [None, None, streams, talks, None, clock, None, sleep, None]
        with pytest.raises(RuntimeError, match="StopIteration"):
            await running.Questions(*questions).run()
        return [await one.count_documents({}) for one in tables]

    assert await tidied() == [1, 1, 2]
    clock.advance(minutes=11)
    assert await tidied() == [0, 0, 2]
    clock.advance(days=8)
    assert (await talks.open(scopes.SHOP, "t")).turns == (), "it is not shown, whether it is deleted or not"
    clock.advance(days=8)
    assert await tidied() == [0, 0, 0]


async def test_a_turn_that_is_over_stays_so_and_one_that_was_shown_lasts_until_the_answer(
    database: mongo.Database,
) -> None:
    clock = clocks.Clock()
    numbers = itertools.count()
    talks = store.Conversations(database, clock, closed.Closed(), lambda: f"{next(numbers)}", life=timedelta(days=7))

    async def shown() -> list[str]:
        return [one.answer for one in (await talks.open(scopes.SHOP, "t")).turns]

    talk = await talks.open(scopes.SHOP, "t")
    assert await talks.add(scopes.SHOP, talk, tree.Turn("q", "over"))
    clock.advance(days=7, seconds=20)  # `purge` was not there yet
    assert await shown() == []
    assert await talks.add(scopes.SHOP, await talks.open(scopes.SHOP, "t"), tree.Turn("q", "first"))
    assert await shown() == ["first"]
    clock.advance(days=6, hours=23, minutes=59)
    talk = await talks.open(scopes.SHOP, "t")
    clock.advance(minutes=10)
    await talks.purge()
    assert await talks.add(scopes.SHOP, talk, tree.Turn("q", "second"))
    assert await shown() == ["first", "second"]


async def test_a_process_that_ends_writes_the_end_of_each_stream(served: rig.Questions, fake: process.Fake) -> None:
    scripted(fake)
    found = await answered(served.client, asked(resume_seconds=60))
    await served.questions.close()
    page = await served.streams.read(scopes.SHOP, found[0].stream or "", 0)
    assert (page.done, [one.id for one in page.events]) == (True, [one.id for one in found])


async def test_only_so_many_questions_at_once(new_site: NewSite, fake: process.Fake) -> None:
    fake.set_script({rig.DECIDE: [STALL] * 2})
    one = new_site(at_once=2)
    async with one.over() as (kb_client, _), kb_client.agent.ask(asked()) as events:
        await anext(events)
        with pytest.raises(client.Unavailable) as caught:
            await answered(kb_client, asked())
        assert caught.value.retry_after == 5
        async with kb_client.agent.ask(asked(viewer=scopes.OTHER)) as others:
            await anext(others)
            assert one.questions.count == 2


async def test_one_token_does_not_take_every_place_by_asking_in_several_scopes(
    new_site: NewSite, fake: process.Fake
) -> None:
    fake.set_script({rig.DECIDE: [STALL] * 3})
    one = new_site(at_once=4)
    try:
        for viewer in (scope.Scope(client_id=""), scopes.SHOP):
            await one.questions.ask(asked(viewer=viewer), Priority.P1, who="gateway")
        with pytest.raises(errors.Crowded, match="2 of this token"):
            await one.questions.ask(asked(viewer=scopes.OTHER), Priority.P1, who="gateway")
        await one.questions.ask(asked(viewer=scopes.OTHER), Priority.P1, who="another")
        jana = scope.Viewer(**scopes.BLOG.model_dump(), principals=("user:jana",))
        await one.questions.ask(asked(viewer=jana), Priority.P1, who="gateway")
        assert one.questions.count == 4
    finally:
        await one.questions.close()


async def test_a_question_has_its_time(new_site: NewSite, fake: process.Fake) -> None:
    # On a slow machine the first of these times may be over before the model is asked.
    for name, seconds in {"a": 0.3, "b": 3, "c": 30}.items():
        fake.set_script({rig.DECIDE: [STALL]})
        async with new_site(name, seconds=seconds).over() as (kb_client, _):
            found = await answered(kb_client, asked())
            assert ([one.type for one in found][1:], found[-1].outcome) == (["error", "complete"], "failed")
            if fake.count(tag=rig.DECIDE):
                await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="cancelled"))
                return
    raise AssertionError("the model was never asked")


async def test_a_token_asks_in_its_scope_alone(site: rig.Questions, tmp_path: Path, fake: process.Fake) -> None:
    gate = callers.gate(callers.write(tmp_path))
    assert not runtoken.is_run_token("operator-token")
    async with site.over(gate) as (_, http):
        body = asked().model_dump(mode="json", by_alias=True, exclude_none=True)
        assert (await http.post("/api/v1/agentic_search", json=body)).status_code == 401
        assert fake.count(tag=rig.DECIDE) == 0
        token = callers.bearer("shop-token")
        for where in ({"clientId": "other"}, {"clientId": "acme", "projectId": "blog"}, {"clientId": "acme"}):
            asked_ = await http.post("/api/v1/agentic_search", json=body | {"scope": where}, headers=token)
            back = await http.get(f"/api/v1/agentic_search/{'0' * 32}", params=where, headers=token)
            assert (asked_.status_code, back.status_code) == (403, 403)
        assert fake.count(tag=rig.DECIDE) == 0
        scripted(fake)
        mine = body["scope"] | {"groupId": "retail"}
        answer = await http.post("/api/v1/agentic_search", json=body | {"scope": mine}, headers=token)
        assert (answer.status_code, '"outcome":"answered"' in answer.text) == (200, True)


async def test_streams_conversations_and_passages_are_those_of_the_principals(
    kb: world.ObservedState, site: rig.Questions, tmp_path: Path, fake: process.Fake
) -> None:
    await kb.ingest(
        world.request("The operating voltage of the secret pump is 999 volts.", urn="manual::secret", title="Secret")
        .model_copy(update={"access": accesses.restricted(["user:jana"])})
    )  # fmt: skip
    named = [
        {"name": who, "sha256": callers.digest(f"{who}-token"), "scopes": [{"clientId": "acme"}], "principals": [user]}
        for who, user in (("jana", "user:jana"), ("petr", "user:petr"))
    ]
    gate = callers.gate(callers.write(tmp_path, *named))
    body = asked(conversation="talk-1", resume_seconds=60).model_dump(mode="json", by_alias=True, exclude_none=True)
    where = {"clientId": "acme", "projectId": "shop"}
    jana, petr = (callers.bearer(f"{who}-token") for who in ("jana", "petr"))
    async with site.over(gate) as (_, http):
        scripted(fake)
        first = await http.post("/api/v1/agentic_search", json=body, headers=jana)
        assert ("999 volts" in first.text, first.status_code) == (True, 200)
        stream = json.loads(first.text.splitlines()[0])["stream"]
        for caller, status in ((petr, 404), (jana, 200)):
            back = await http.get(f"/api/v1/agentic_search/{stream}", params=where, headers=caller)
            assert back.status_code == status
        for caller, known in ((petr, False), (jana, True)):
            scripted(fake)
            again = await http.post("/api/v1/agentic_search", json=body, headers=caller)
            said = fake.requests(tag=rig.DECIDE)[0]["body"]["messages"][1]["content"]
            assert (f"Answer: {SAID}" in said, "999 volts" in again.text) == (known, known)


async def test_a_stream_that_is_not_read_to_its_end_is_closed(site: rig.Questions, fake: process.Fake) -> None:
    scripted(fake)
    found = await site.questions.ask(asked(), Priority.P1)
    async with aclosing(found.follow()) as events:
        assert (await anext(events)).id == 1
    site.questions.leave(found)
    assert found.task is not None
    with pytest.raises(asyncio.CancelledError):
        await found.task
    assert (found.done, site.questions.count) == (True, 0)
