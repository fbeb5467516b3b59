"""Answers of models that follow the schema and make no sense: what they cost, and that the document has its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from crds.priority import Priority
from kb import errors, identity, metrics
from kb.extract import answers, hints, prompt, typed
from router import client as router_client
from tests import effort
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.extract.qualifier.test_scenarios import LOG, document, kb, qualified

__all__ = ["kb"]
SAID: dict[str, Any] = {
    "hasActionableContent": False,
    "isAssignedToMe": False,
    "hasFutureDeadline": False,
    "urgency": "low",
    "summary": "",
    "reason": "",
}


async def test_a_log_that_is_summarized_by_blanks_is_asked_about_again(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    blank = SAID | {"log_summary": " ", "key_events": [], "critical_details": ["invented"]}
    good = SAID | {"log_summary": "It failed.", "key_events": [], "critical_details": LOG.splitlines()[-1:]}
    fake.set_script({"kb.qualify.log/v1": [blank, good]})
    reply, found = await qualified(kb, document("LOG"))
    assert len(reply.chunk_ids) == 2
    assert found.errors == ()
    [_, again] = [one["body"]["messages"] for one in fake.requests(tag="kb.qualify.log/v1")]
    assert [one["role"] for one in again[-2:]] == ["assistant", "user"]
    assert "log_summary: String should have at least 1 character" in again[-1]["content"]
    # Three times in all.
    fake.forget()
    fake.set_script({})
    fake.set_faults([{"match": {"tag": "kb.qualify.log/v1"}, "malformed": "answer"}])
    await qualified(kb, document("LOG", urn="log::other", title="Another"))
    assert fake.count(tag="kb.qualify.log/v1") == 3


def test_what_a_model_adds_to_a_long_text_is_looked_up_in_moments() -> None:
    text = (LOG + "\n") * 800
    with effort.counted() as spent:
        invented = ["\n".join(f"no {number} {line}" for line in range(1000)) for number in range(100)]
        read = typed.LogReading.model_validate(
            SAID | {"log_summary": "It failed.", "key_events": invented, "critical_details": LOG.splitlines()[-1:]}
        )
        found, problems = typed.log(text, read)
        assert found.critical_details == (LOG.splitlines()[-1],)
        assert len(problems) == 1
        mail = SAID | {"classification": "REQUEST", "recipients": [f"nobody{number}" for number in range(200)]}
        assert typed.email(world.request(text), text, "", typed.EmailReading.model_validate(mail)).recipients == ()
    assert spent.loops < 80


async def test_an_answer_that_was_kept_and_is_valid_no_more_is_asked_for_again(
    kb: world.ObservedState, router: router_client.Client, meters: metrics.Metrics, fake: process.Fake
) -> None:
    asked = answers.Answers(router, "qwen2.5:7b", kb.ledger, meters)
    question = prompt.hints("Hello.", title="", kind="note", today=kb.clock().date(), team=())
    where = answers.key("qwen2.5:7b", question, hints.Judgement)
    await kb.ledger.keep_answer(where, question.name, '{"urgency": "none"}', scopes.SHOP)
    assert await asked.kept(question, hints.Judgement, scopes.SHOP) is None
    await asked.ask(question, hints.Judgement, Priority.P3, scopes.SHOP)
    assert fake.count(path="/api/chat") == 1


@pytest.mark.parametrize("stop", range(6))
async def test_a_log_that_is_summarized_in_other_words_when_it_is_resumed_leaves_nothing_of_the_first(
    open_world: world.Opening, clock: clocks.Clock, fake: process.Fake, stop: int
) -> None:
    """The prompt has the day in it: what was kept yesterday does not count today."""
    vectors, sent = memory.Vectors(), document("LOG")
    said = SAID | {"key_events": [], "critical_details": LOG.splitlines()[-1:]}
    fake.set_script({"kb.qualify.log/v1": [said | {"log_summary": f"{day} day."} for day in ("First", "Second")]})
    vectors.switch.fail_after = stop
    async with open_world(vectors) as one:
        with pytest.raises(errors.Away):
            await one.ingest(sent)
    vectors.switch.fail_after = None
    clock.advance(seconds=timedelta(days=2).total_seconds())
    async with open_world(vectors) as another:
        assert await another.recovery.sweep(before=clock()) == 1
        stored = await vectors.known(scopes.SHOP, identity.document(scopes.SHOP, sent.source_urn))
        texts = [one.text for one in (await vectors.chunks(scopes.SHOP, list(stored))).values()]
        assert sorted(text.splitlines()[1] for text in texts) == [LOG.splitlines()[-1], "Second day."]
        assert (await another.graph.counts(scopes.SHOP)).chunks == len(texts)


async def test_prose_that_is_called_a_log_has_the_chunks_of_its_summary(
    kb: world.ObservedState, fake: process.Fake, meters: metrics.Metrics
) -> None:
    """The chunks of its own text are in the hands of models by then."""
    detected = SAID | {"contentType": "LOG", "typeReason": "It says so."}
    summary = SAID | {"log_summary": "Petr wrote module1.py.", "key_events": [], "critical_details": []}
    fake.set_script({"kb.qualify.detect/v2": [detected], "kb.qualify.log/v1": [summary]})
    reply, found = await qualified(kb, document("GENERIC"))
    assert found.content_type == "LOG"
    assert len(reply.chunk_ids) == found.processed_chunk_count == 1
    stored = await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)
    assert [one.text for one in stored.values()] == ["Summary:\nPetr wrote module1.py."]
    for phase in found.metrics.phases:
        name = {"phase": phase.phase.value}
        assert meters.registry.get_sample_value("jervis_kb_qualify_phase_seconds_count", name) == 1
        assert meters.registry.get_sample_value("jervis_kb_qualify_calls_total", name) == phase.calls


@pytest.mark.parametrize(("charset", "lost"), [("utf-8", 0), ("cp1250", 5)])
async def test_a_page_of_another_charset_is_stored_and_said_to_be(
    kb: world.ObservedState, charset: str, lost: int
) -> None:
    body = "Strana 7\n\nP\u0159\u00edli\u0161 \u017elu\u0165.".encode(charset)
    kept = await kb.content.save(scopes.SHOP, body, "text/plain")
    sent = document("CONFLUENCE").model_copy(update={"content": None, "content_ref": kept})
    reply, _ = await qualified(kb, sent)
    said = [f"{lost} characters are not UTF-8, and words with them are not found"]
    assert reply.problems == (said if lost else [])
