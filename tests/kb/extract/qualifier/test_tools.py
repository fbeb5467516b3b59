"""Calls of tools about a task: what they come to, what they may name, and that contradictions are decided carefully."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pendingtask import directive
from controllers.pendingtask.effects import ingest
from crds.pendingtask import Decision, Type
from kb import api
from kb.extract import answers, draft, hints
from kb.extract.tools import registry, task
from tests import thorough
from tests.kb import world

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
URN = "jira::JERV-77"
REQUEST = world.request("The page is blank.", urn=URN, kind="issue", metadata={"taskUid": "uid-1"})
DRAFT = draft.make(REQUEST, "The page is blank.", size=4000, overlap=200)
CHUNK = DRAFT.pieces[0].id


def calls(barred: dict[str, str] | None = None, request: api.IngestRequest = REQUEST) -> task.Calls:
    return task.Calls(task.About.of(request, DRAFT, "JERV-77", barred))


RIGHT: dict[str, dict[str, Any]] = {
    "classifyJiraTicket": {"jiraKey": "JERV-77", "classification": "ACTIONABLE", "reason": "It is broken."},
    "createUserTaskFromJira": {
        "jiraKey": "JERV-77",
        "title": "Who owns the page?",
        "descriptionRef": URN,
        "priority": "HIGH",
    },
    "deferPendingTask": {"deferMinutes": 3 * 1440, "reason": "Not before Thursday."},
    "failToUserTask": {"reason": "It is encrypted.", "detailsRef": CHUNK},
    "askUserQuestions": {"questions": ["Which page?"], "context": "The issue does not say."},
    "routeTask": {"routing": "READY_FOR_GPU", "reason": "A fix is asked for.", "contextSummary": "A blank page."},
}
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
_REFERENCE = st.sampled_from([URN, CHUNK])
VALID = st.one_of(
    st.builds(
        lambda kind, reason: (
            "classifyJiraTicket",
            {"jiraKey": "JERV-77", "classification": kind, "reason": reason}
            | ({"customGroup": "team"} if kind == "CUSTOM" else {}),
        ),
        st.sampled_from([one.value for one in api.JiraClassification]),
        _TEXT,
    ),
    st.builds(
        lambda title, about, urgent: (
            "createUserTaskFromJira",
            {"jiraKey": "JERV-77", "title": title, "descriptionRef": about, "priority": urgent},
        ),
        _TEXT,
        _REFERENCE,
        st.sampled_from([one.value for one in api.TaskPriority]),
    ),
    st.builds(
        lambda minutes, reason: ("deferPendingTask", {"deferMinutes": minutes, "reason": reason}),
        st.integers(1, 527_040),
        _TEXT,
    ),
    st.builds(lambda reason: ("failToUserTask", {"reason": reason}), _TEXT),
    st.builds(
        lambda asked, context: ("askUserQuestions", {"questions": asked, "context": context}),
        st.lists(_TEXT, min_size=1, max_size=16),
        _TEXT,
    ),
    st.builds(
        lambda routing, reason, mine, deadline, urgency, tags: (
            "routeTask",
            {"routing": routing, "reason": reason, "assignedToUs": mine, "urgency": urgency, "tags": tags}
            | ({"deadline": deadline.isoformat()} if deadline else {}),
        ),
        st.sampled_from(["DONE", "READY_FOR_GPU"]),
        _TEXT,
        st.booleans(),
        st.none() | st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
        st.sampled_from(["low", "normal", "high"]),
        st.lists(_TEXT, max_size=5),
    ),
)
Sequence = list[tuple[str, dict[str, Any]]]


def outcome(made: Sequence) -> tuple[list[dict[str, Any]], hints.Judgement | None]:
    desk = calls()
    results = [desk.answer(name, arguments)[1] for name, arguments in made]
    return results, desk.judgement()


def settled(judged: hints.Judgement) -> tuple[api.Hints, api.QualifierDirective]:
    found = hints.settle(judged, NOW)
    return found, hints.direct(judged, found, NOW)


def decision(judged: hints.Judgement | None) -> directive.Chosen:
    """What the operator makes of the reply that carries it."""
    assert judged is not None
    found, given_ = settled(judged)
    reply = api.IngestReply(
        source_urn=URN,
        replaced=False,
        chunk_ids=[],
        node_keys=[],
        edge_count=0,
        summary=judged.summary,
        hints=found,
        directive=given_,
    )
    sent = api.IngestReply.model_validate_json(reply.model_dump_json(by_alias=True))
    return directive.choose(Type.BUG_TRACKER, ingest.ingested(sent), lead=timedelta(days=2), now=NOW)


@settings(max_examples=thorough.examples(150), deadline=None)
@given(st.lists(VALID, max_size=10))
def test_any_valid_calls_yield_a_directive_that_the_operator_takes(made: Sequence) -> None:
    results, judged = outcome(made)
    assert all("error" not in one for one in results)
    assert outcome(made) == (results, judged), "the same calls twice have the same ids and the same directive"
    decides = any(name != "classifyJiraTicket" for name, _ in made)
    assert (judged is not None) == decides
    if judged is None:
        return
    names = {name for name, _ in made}
    chosen = decision(judged)
    if "failToUserTask" in names:
        assert chosen.decision is Decision.FAIL
    elif names & {"askUserQuestions", "createUserTaskFromJira"}:
        assert chosen.decision is Decision.ASK
        assert 1 <= len(chosen.questions) <= 16
    else:
        assert chosen.decision not in (Decision.FAIL, Decision.ASK)
    assert {one.get("callId") for one in results} == {one["callId"] for one in results}


@settings(max_examples=thorough.examples(60), deadline=None)
@given(st.lists(VALID, min_size=1, max_size=4))
def test_the_order_of_calls_decides_nothing(made: Sequence) -> None:
    def what(judged: hints.Judgement | None) -> object:
        if judged is None:
            return None
        found, given_ = settled(judged)
        unworded = found.model_copy(update={"reason": "", "failure": bool(found.failure), "questions": []})
        wanted = sorted(given_.questions or ())
        # Of more than are asked the first ones are.
        return unworded, given_.action, given_.defer_minutes, wanted if len(wanted) < 16 else 16

    orders = itertools.islice(itertools.permutations(made), 6)
    assert len({repr(what(outcome(list(order))[1])) for order in orders}) <= 1


def test_a_structured_answer_and_calls_are_the_same_directive() -> None:
    structured = hints.Judgement.model_validate(
        {
            "hasActionableContent": True, "isAssignedToMe": True, "hasFutureDeadline": True,
            "suggestedDeadline": "2026-04-15T00:00:00Z", "urgency": "high", "summary": "A blank page.",
            "reason": "The issue does not say.", "action": "Ask", "questions": ["Which page?"], "tags": ["web"],
        }
    )  # fmt: skip
    route = RIGHT["routeTask"] | {
        "assignedToUs": True, "deadline": "2026-04-15T00:00:00Z", "urgency": "high", "tags": ["web"],
    }  # fmt: skip
    _, judged = outcome([("askUserQuestions", RIGHT["askUserQuestions"]), ("routeTask", route)])
    assert judged == structured
    assert settled(judged) == settled(structured)


@pytest.mark.parametrize(
    ("names", "held", "said"),
    [
        (("deferPendingTask", "failToUserTask", "askUserQuestions"), Decision.FAIL, "askUserQuestions, defer"),
        (("deferPendingTask", "createUserTaskFromJira"), Decision.ASK, "deferPendingTask"),
        (("deferPendingTask", "routeTask"), Decision.DEFER, ""),
        (("routeTask", "classifyJiraTicket"), Decision.EXECUTE, ""),
    ],
)  # fmt: skip
def test_the_most_careful_call_holds_and_that_is_said(names: tuple[str, ...], held: Decision, said: str) -> None:
    desk = calls()
    for name in names:
        desk.answer(name, RIGHT[name])
    assert decision(desk.judgement()).decision is held
    assert (desk.contradictions != []) == bool(said)
    assert said in "".join(desk.contradictions)


def test_that_nothing_is_to_be_done_holds_only_where_no_call_says_otherwise() -> None:
    done = RIGHT["routeTask"] | {"routing": "DONE"}
    for name in RIGHT.keys() - {"routeTask"}:
        desk = calls()
        desk.answer("routeTask", done)
        desk.answer(name, RIGHT[name])
        assert decision(desk.judgement()).decision is not Decision.INFO_ONLY, name
        assert "routeTask DONE" in desk.contradictions[0]
    assert decision(outcome([("routeTask", done)])[1]).decision is Decision.INFO_ONLY


def test_each_call_answers_the_id_of_the_task_that_the_operator_moves() -> None:
    named = {
        "classifyJiraTicket": "taskId",
        "createUserTaskFromJira": "taskId",
        "deferPendingTask": "scheduledTaskId",
        "failToUserTask": "userTaskId",
        "askUserQuestions": "dialogTaskId",
        "routeTask": "taskId",
    }
    untasked = REQUEST.model_copy(update={"metadata": {"taskUid": {"a": 1}}})
    for name, given_ in RIGHT.items():
        outcome_, result = calls().answer(name, given_)
        assert (outcome_, result[named[name]]) == ("ok", "uid-1")
        assert calls(request=untasked).answer(name, given_)[1][named[name]] == DRAFT.document_id
        texts = [one for one in given_.values() if isinstance(one, str) and " " in one]
        assert not any(text in json.dumps(result) for text in texts), "no text that was given comes back"
        registry.NAMED[name].result.model_validate(result)
    assert len({calls().answer(name, given_)[1]["callId"] for name, given_ in RIGHT.items()}) == len(RIGHT)


HOSTILE: list[tuple[str, object, str, str]] = [
    ("classifyJiraTicket", {"jiraKey": "GLOBEX-1"}, "invalid", "jiraKey"),
    ("classifyJiraTicket", {"classification": "URGENT"}, "invalid", "classification"),
    ("classifyJiraTicket", {"customGroup": "team"}, "invalid", "arguments"),
    ("createUserTaskFromJira", {"descriptionRef": "email::<other@globex.com>"}, "invalid", "descriptionRef"),
    ("createUserTaskFromJira", {"descriptionRef": "The whole text of the issue. " * 50}, "invalid", "descriptionRef"),
    ("createUserTaskFromJira", {"clientId": "globex"}, "invalid", "clientId"),
    ("failToUserTask", {"detailsRef": "00000000-0000-0000-0000-000000000000"}, "invalid", "detailsRef"),
    ("deferPendingTask", {"deferMinutes": 10**12}, "invalid", "deferMinutes"),
    ("deferPendingTask", {"deferMinutes": -1}, "invalid", "deferMinutes"),
    ("askUserQuestions", {"questions": ["?"] * 17}, "invalid", "questions"),
    ("askUserQuestions", {"questions": []}, "invalid", "questions"),
    ("routeTask", {"ragDocIds": ["00000000-0000-0000-0000-000000000000"]}, "invalid", "ragDocIds.0"),
    ("routeTask", {"graphNodeKeys": ["jira::JERV-77", "jira::GLOBEX-1"]}, "invalid", "graphNodeKeys.1"),
    ("routeTask", {"reason": "x" * 70_000}, "too_large", "arguments"),
    ("routeTask", {"x" * 5000: 1}, "invalid", "x" * 100),
    ("storeChunk", {}, "not_found", "name"),
    ("erase", {}, "not_found", "name"),
]


@pytest.mark.parametrize(("name", "changed", "code", "field"), HOSTILE)
def test_a_call_about_anything_else_changes_nothing(name: str, changed: dict[str, Any], code: str, field: str) -> None:
    desk = calls()
    outcome_, result = desk.answer(name, RIGHT.get(name, {}) | changed)
    assert (outcome_, result["error"]["code"], result["error"]["field"]) == (code, code, field)
    assert result["error"]["remedy"]
    assert len(json.dumps(result)) < 1000
    assert (desk.accepted, desk.judgement()) == ([], None)


def test_what_models_write_for_nothing_is_nothing_and_a_date_is_the_end_of_its_day() -> None:
    empty = [
        ("classifyJiraTicket", RIGHT["classifyJiraTicket"] | {"customGroup": ""}),
        ("failToUserTask", {"reason": "r", "detailsRef": "null"}),
        ("routeTask", RIGHT["routeTask"] | {"deadline": ""}),
    ]
    assert [calls().answer(name, arguments)[0] for name, arguments in empty] == ["ok"] * 3
    judged = outcome([("routeTask", RIGHT["routeTask"] | {"deadline": "2026-04-15"})])[1]
    assert judged is not None
    assert judged.suggested_deadline == datetime(2026, 4, 15, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize("arguments", [None, "{}", [], 7, {"a": float("nan")}, {1: 2}])
def test_arguments_that_are_none_are_refused(arguments: object) -> None:
    assert calls().answer("routeTask", arguments)[0] == "invalid"


def test_a_careful_call_that_was_refused_is_not_lost() -> None:
    desk = calls()
    desk.answer("failToUserTask", {"reason": "sealed", "detailsRef": "elsewhere"})
    desk.answer("routeTask", RIGHT["routeTask"] | {"routing": "DONE"})
    assert desk.judgement() is None
    desk.answer("failToUserTask", RIGHT["failToUserTask"])
    judged = desk.judgement()
    assert judged is not None
    assert judged.action is api.DirectiveAction.FAIL


def test_a_flood_of_calls_decides_nothing() -> None:
    desk = calls()
    said = [desk.answer("routeTask", RIGHT["routeTask"])[0] for _ in range(answers.MOST_CALLS + 1)]
    assert said == ["ok"] * answers.MOST_CALLS + ["too_large"]
    assert len(desk.accepted) == 1, "a repeated call is one"
    assert desk.judgement() is None


def test_a_rule_takes_a_tool_from_the_model() -> None:
    desk = calls({"deferPendingTask": "the hard rule 'k' (version 1) forbids it"})
    assert "deferPendingTask" not in {one["function"]["name"] for one in desk.functions}
    assert desk.answer("deferPendingTask", RIGHT["deferPendingTask"])[0] == "forbidden"
    desk.answer("routeTask", RIGHT["routeTask"])
    assert desk.judgement() is None, "what the model wanted is asked for in another form"


def test_what_has_no_key_of_an_issue_is_not_offered_its_tools() -> None:
    about = task.About.of(REQUEST, DRAFT, "")
    assert {one.name for one in registry.TASK} - {one.name for one in about.tools} == {
        "classifyJiraTicket",
        "createUserTaskFromJira",
    }
