"""The pure parts: prompt, answer, evidence pack, rounds, stuck, termination message, patience, start-up."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Collection
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import crds.errors
from contracts.rules import enforce_lines
from crds import exit_reasons, pendingtask
from kb import client as kb_client
from orchestrator_job import errors, outcome, settings, termination
from orchestrator_job.answer import answer_prompt, evidence_pack, model_answer
from orchestrator_job.model import prompt_budget, prompt_escape, repetition
from orchestrator_job.run import rounds
from orchestrator_job.store import graph_state, retry
from router import client as router_client
from router.client import reading
from tests.orchestrator_job import knowledge


def parsed(
    text: str, evidence_ids: Collection[int], held: enforce_lines.Provisions | None = None
) -> model_answer.Answer:
    """The answer in a model's text."""
    draft = reading.read(text, model_answer.Draft).value
    return model_answer.judged(draft, evidence_ids, held or enforce_lines.Provisions())


_PIECES = [*"<>/[]:& \t\nabv1", "evidence", "Evidence", "</", "question", "prompt", "PROMPT", "id=", '"']
_WEIRD = st.lists(st.sampled_from(_PIECES), max_size=30).map("".join)


@given(_WEIRD, _WEIRD, _WEIRD)
def test_no_text_leaves_its_block(content: str, source: str, question: str) -> None:
    item = evidence_pack.Item(id=1, source=source, content=content, origin="RAG")
    user = answer_prompt.messages(question, [item], datetime(2026, 3, 1, tzinfo=UTC))[1]["content"]
    squeezed = "".join(user.lower().split())
    assert squeezed.count("<evidence") == squeezed.count("</evidence") == 1
    assert squeezed.count("<question") == squeezed.count("</question") == 1
    assert "[prompt:" not in squeezed
    if "&lt;" not in content and "&#91;" not in content:
        assert prompt_escape.restore(prompt_escape.defuse(content)) == content


def test_the_prompt_carries_tag_date_and_order() -> None:
    items = [evidence_pack.Item(id=n, source=f"s{n}", title="T", content=f"c{n}", origin="RAG") for n in (1, 2)]
    system, user = answer_prompt.messages("why?", items, datetime(2026, 3, 1, tzinfo=UTC))
    assert system["content"].splitlines()[0] == "[prompt:job.respond/v1]"
    assert user["content"] == (
        'Today: 2026-03-01, Sunday, 00:00 (UTC+00:00)\n<evidence id="1" source="s1">T\nc1</evidence>\n'
        '<evidence id="2" source="s2">T\nc2</evidence>\n<question>why?</question>'
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"answer": "  "}, "answer: has no word, and no question is asked"),
        ({"answer": ");, [1]"}, "answer: has no word, and no question is asked"),
        ({"answer": "?", "questions": ["?", " ()"]}, "answer: has no word, and no question is asked"),
        ({"answer": "  ", "needsInput": True}, "answer: has no word, and no question is asked"),
        ({"answer": {"text": "a"}}, "answer: has no word"),
    ],
)
def test_answers_that_cannot_be_used(change: dict[str, object], problem: str) -> None:
    text = json.dumps({"answer": "a", "citations": [], "confidence": 1, "needsInput": False, "questions": [], **change})
    with pytest.raises(reading.Unusable, match=problem):
        parsed(text, [1, 2])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"citations": [3]}, {}),
        ({"citations": [1026453870, 1]}, {"citations": [1]}),
        ({"citations": "1"}, {"citations": [1]}),
        ({"answer": "so [2, 9]. And [9]."}, {"answer": "so [2]. And .", "citations": [2]}),
        ({"confidence": 1.5}, {"confidence": 0.5}),
        ({"confidence": 95}, {"confidence": 0.95}),
        ({"confidence": "very low"}, {"confidence": 0.1}),
        # A person's question is never lost to a flag.
        ({"needsInput": True}, {}),
        ({"needsInput": True, "questions": [" "]}, {}),
        ({"questions": [""]}, {}),
        (
            {"needsInput": True, "questions": ["Which?", " Which?", "When?"]},
            {"needs_input": True, "questions": ["Which?", "When?"]},
        ),
        ({"answer": "", "questions": ["Which?"]}, {"answer": "", "needs_input": True, "questions": ["Which?"]}),
    ],
)
def test_what_is_usable_of_an_answer_is_used(change: dict[str, object], expected: dict[str, object]) -> None:
    text = json.dumps({"answer": "a", "citations": [], "confidence": 1, "needsInput": False, "questions": [], **change})
    plain = {"answer": "a", "citations": [], "confidence": 1.0, "needs_input": False, "questions": []}
    assert parsed(text, [1, 2]).model_dump() == plain | expected


def test_marks_in_the_text_are_citations() -> None:
    text = json.dumps({"answer": "[2] x [1,2]", "citations": [2], "confidence": "high"})
    assert parsed(text, [1, 2]).citations == [1, 2]


def test_a_model_answers_or_asks_and_cites_what_there_is() -> None:
    given, asks = model_answer.wire([1, 2])["anyOf"]
    assert given["properties"]["citations"] == {"type": "array", "items": {"type": "integer", "enum": [1, 2]}}
    assert set(given["required"]) == {"answer", "citations", "confidence"}
    assert asks["properties"]["questions"]["minItems"] == 1
    assert "citations" not in model_answer.wire([])["anyOf"][0]["properties"]
    held = enforce_lines.Provisions.together(["enforce: never-use-tool ask"])
    assert "questions" not in model_answer.wire([1], held)["properties"]
    assert parsed('{"answer": "", "questions": ["Which?"]}', []).needs_input


def test_the_pack_is_numbered_bounded_and_without_repetition() -> None:
    own = [evidence_pack.Item(id=0, source="mail", content="d" * 900, origin="Task")]
    found = [
        knowledge.hit("of the mail itself", source_urn="mail"),
        knowledge.hit("one"),
        knowledge.hit("one"),
        knowledge.hit("  "),
        knowledge.hit("f" * 600),
        knowledge.hit("too late"),
    ]
    items = evidence_pack.build(own, found, "mail", 1000)
    assert [(item.id, len(item.content)) for item in items] == [(1, 500), (2, 3), (3, 497)]
    assert evidence_pack.load(evidence_pack.dump(items)) == items


def test_rounds() -> None:
    begun = {"schema": graph_state.SCHEMA, "round": 2, "digest": "d"}
    assert rounds.plan({}, "d") == rounds.Begin(1)
    assert rounds.plan(begun, "d") == rounds.Resume()
    assert rounds.plan({**begun, "finished": 1, "exit_reason": "NeedsInput"}, "d") == rounds.Resume()
    assert rounds.plan({**begun, "finished": 2}, "d") == rounds.Report()
    assert rounds.plan({**begun, "finished": 2}, "other") == rounds.Begin(3)
    assert rounds.plan(begun, "d", 2) == rounds.Resume()
    with pytest.raises(errors.CheckpointRefused, match="round 3"):
        rounds.plan({}, "d", 3)
    for wrong in ({"schema": 0}, {"schema": None}, {"round": None}):
        with pytest.raises(errors.CheckpointRefused):
            rounds.plan({**begun, **wrong}, "d")


def test_stuck_after_three_of_the_same() -> None:
    trail = repetition.note(repetition.note(repetition.note([], "ask", ["a"]), "ask", ["b"]), "ask", ["a"])
    with pytest.raises(errors.Stuck):
        repetition.note(trail, "ask", ["a"])
    for number in range(100):
        trail = repetition.note(trail, "ask", [str(number)])
    assert len(trail) < 20


def test_a_loop_is_stuck_at_the_third_of_the_same_however_many_others_are_between() -> None:
    watch = repetition.Watch()
    for turn in range(2):
        for number in range(20):
            watch.call("run_command", {"command": f"check {number}"})
            watch.found(f"check {number} in turn {turn}", failed=False)
    with pytest.raises(errors.Stuck):
        watch.call("run_command", {"command": "check 0"})


def test_a_changed_workspace_begins_anew_but_for_the_change_itself() -> None:
    watch = repetition.Watch()
    for _ in range(2):
        watch.call("run_command", {"command": "pytest"})
        watch.found("failed", failed=False)
        watch.call("edit_file", {"path": "a.py"})
        watch.found("changed", failed=False, changed=True)
    watch.call("run_command", {"command": "pytest"})
    with pytest.raises(errors.Stuck):
        watch.call("edit_file", {"path": "a.py"})


@given(st.text(max_size=6000), st.lists(st.text(min_size=1, max_size=2048), max_size=16), st.text(max_size=5000))
def test_the_termination_message_always_fits(summary: str, texts: list[str], remedy: str) -> None:
    questions = tuple(pendingtask.Question(id=f"r1-q{n}", text=text) for n, text in enumerate(texts, 1))
    result = outcome.Outcome(
        exit_reasons.ExitReason.NEEDS_INPUT, summary, has_result=True, questions=questions, field=remedy, remedy=remedy
    )
    message = termination.encode(result, "u" * 36, 7)
    assert len(message) <= termination.LIMIT
    document = json.loads(message)
    assert document["exitReason"] == "NeedsInput"
    assert len(document["summary"].encode()) <= pendingtask.SUMMARY_BYTES
    kept = document.get("questions", [])
    assert [each["id"] for each in kept] == [question.id for question in questions[: len(kept)]]
    assert bool(kept) == bool(questions)


@given(st.text(max_size=6000), st.integers(1, 10_000))
def test_a_message_says_how_many_effects_wait(summary: str, count: int) -> None:
    refused = errors.NeedsApproval(summary, stored=True, waiting=count)
    message = termination.encode(outcome.of_error(refused), "u" * 36, 7)
    assert len(message) <= termination.LIMIT
    said = json.loads(message)
    assert (said["waiting"], said["ref"]["key"]) == (count, "u" * 36)
    assert "waiting" not in json.loads(termination.encode(outcome.of_bug(ValueError()), "u", 7))


@given(
    st.text(st.characters(codec=None), max_size=300),
    st.integers(0, 40),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(0, 80),
)
def test_every_field_of_the_termination_message_is_bounded(text: str, count: int, retry: float, limit: int) -> None:
    questions = tuple(pendingtask.Question.model_construct(id=text * 9, text=text * 9) for _ in range(count))
    result = outcome.Outcome(
        exit_reasons.ExitReason.UNAVAILABLE,
        text * 20,
        has_result=True,
        questions=questions,
        unavailable="router",
        retry_after=retry,
        field=text * 20,
        remedy=text * 20,
    )
    message = termination.encode(result, "u" * 36, 7)
    assert len(message) <= termination.LIMIT
    said = json.loads(message)
    assert len(said["field"].encode()) <= 256
    assert len(said["remedy"].encode()) <= 256
    assert len(said.get("questions", [])) <= 16
    assert all(len(each["id"].encode()) <= 63 and set(each) == {"id", "text"} for each in said.get("questions", []))
    if "retryAfterSeconds" in said:
        assert said["retryAfterSeconds"] in range(86_401)
    else:
        assert not math.isfinite(retry)
    assert len(termination.shorten(text, limit).encode()) <= limit


def test_what_a_prompt_takes_is_estimated() -> None:
    said = [{"role": "user", "content": "word " * 100}, {"role": "user", "content": ""}]
    assert prompt_budget.tokens(said) == 125 + 8
    assert prompt_budget.tokens([{"content": "abc"}, {"content": "d"}]) == 1 + 8, "rests of messages count together"


@pytest.mark.parametrize(("given", "left"), [(3600, 3590), (604_800, 604_790), (10, 5), (1, 0.5)])
def test_the_run_ends_before_its_job_does(given: float, left: float) -> None:
    names = {"TASK_UID": "u", "TASK_NAME": "n", "TASK_NAMESPACE": "s", "ATTEMPT": "1", "MONGODB_URI": "mongodb://m"}
    values = {**names, "KB_URL": "http://k", "ROUTER_URL": "http://r", "WALL_CLOCK_SECONDS": str(given)}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in values.items():
            environment.setenv(f"JERVIS_{name}", value)
        assert settings.Settings().working_seconds == left


@pytest.mark.parametrize(
    ("error", "reason", "status", "away"),
    [
        (errors.StoreUnavailable("gone"), "Unavailable", 1, "mongodb"),
        (router_client.Unavailable("busy", retry_after=7), "Unavailable", 1, "router"),
        (kb_client.Unavailable("busy"), "Unavailable", 1, "kb"),
        (router_client.Rejected("no model", field="model"), "WrongModel", 1, None),
        (router_client.Rejected("too large", field="messages"), "Error", 1, None),
        (kb_client.Rejected("bad scope"), "InvalidInput", 1, None),
        (errors.Fenced("later run"), "Fenced", 1, None),
        (errors.MayHaveHappened("sent?"), "NeedsApproval", 0, None),
        (crds.errors.Permanent("?"), "Error", 1, None),
    ],
)
def test_what_an_error_means(error: crds.errors.JervisError, reason: str, status: int, away: str | None) -> None:
    result = outcome.of_error(error)
    assert (result.reason.value, result.exit_code, result.unavailable) == (reason, status, away)
    if isinstance(error, crds.errors.Operational):
        assert result.retry_after == error.retry_after
        assert result.reason in exit_reasons.RESUMABLE
    assert outcome.drained("SIGTERM").exit_code == 42


class _Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


async def test_patience_doubles_obeys_and_ends() -> None:
    clock, tries = _Clock(), 0
    retries = retry.Retry(60, first=1, longest=8, clock=lambda: clock.now, sleep=clock.sleep, draw=lambda: 1.0)

    async def busy() -> None:
        nonlocal tries
        tries += 1
        raise errors.StoreUnavailable("busy", retry_after=20 if tries == 3 else None)

    with pytest.raises(errors.StoreUnavailable):
        await retries.call("x", busy)
    assert clock.waits == [1, 2, 20, 8, 8, 8, 8]
    assert tries == len(clock.waits) + 1

    async def wrong() -> None:
        raise errors.InvalidInput("no")

    clock.waits.clear()
    with pytest.raises(errors.InvalidInput):
        await retries.call("x", wrong)
    assert clock.waits == []


def test_nothing_slow_is_imported_before_the_signals_are_handled() -> None:
    program = "import sys, orchestrator_job.__main__; print(*sys.modules, sep='\\n')"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = {name.partition(".")[0] for name in output.split()}
    assert not loaded & {"langgraph", "langchain_core", "pymongo", "pydantic", "httpx", "structlog"}
    program = "import sys, orchestrator_job.run.lifecycle, orchestrator_job.settings; print(*sys.modules, sep='\\n')"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {name.partition(".")[0] for name in output.split()} & {"langgraph", "langchain_core"}
