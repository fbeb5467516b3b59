"""Qualifying: the concurrency limit, reading before routing, backoff without end, routing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pydantic
import pytest

from controllers.pendingtask import decision, observed
from controllers.pendingtask.decide import decide
from controllers.pendingtask.effects import ingest
from controllers.pendingtask.observed import ObservedState, Trouble
from controllers.pendingtask.policy import qualifying
from crds import pendingtask
from crds.pendingtask import Hints
from crds.phases import Phase
from kb import api
from tests.controllers.build import GPU, NOW, UID, after, apply, changed, decided, present, task

OPEN = ObservedState(slots=GPU)
AWAY = Trouble("away", operational=True)
FAIL = api.QualifierDirective(action=api.DirectiveAction.FAIL, message="It is encrypted.")
WRONG = Trouble("kind is wrong", operational=False, field="kind", remedy="Choose another.")


ACTION = Hints(has_actionable_content=True)
NEWS = (Hints(has_actionable_content=False), "", Phase.DONE)
WORK = (ACTION, "", Phase.READY_FOR_GPU)
UNCLEAR = (ACTION, "It could not be judged.", Phase.USER_TASK)


def failing(why: str) -> api.QualifierDirective | None:
    return FAIL.model_copy(update={"message": why}) if why else None


def test_ten_at_once() -> None:
    ready = task(Phase.READY_FOR_QUALIFICATION)
    assert decide(ready, ObservedState(qualifying=9), NOW).effects == (decision.Ingest(),)
    assert decide(ready, ObservedState(qualifying=10), NOW) == decision.Decision(wait_for=decision.WaitFor.QUALIFIER)


def test_a_chat_message_is_routed_without_ingestion() -> None:
    chat = task(Phase.READY_FOR_QUALIFICATION, spec={"type": "UserInputProcessing"})
    made = decide(chat, ObservedState(), NOW)
    assert (made.phase, made.effects) == (Phase.QUALIFYING, ())
    chat = apply(chat, made.status_patch)
    made = decide(chat, ObservedState(), NOW)
    assert made.phase is Phase.READY_FOR_GPU
    assert made.status_patch["route"]["reason"] == "user input"


FILES: list[dict[str, Any]] = [
    {
        "name": name,
        "mediaType": "text/plain",
        "contentRef": {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": 5},
    }
    for name in ("a.txt", "a.txt")
]


def test_the_files_of_a_question_are_read_first_and_need_no_place() -> None:
    chat = task(Phase.READY_FOR_QUALIFICATION, spec={"type": "UserInputProcessing", "attachments": FILES})
    made = decide(chat, ObservedState(qualifying=10), NOW)
    assert (made.phase, made.effects) == (Phase.QUALIFYING, (decision.Ingest(),))
    chat = apply(chat, made.status_patch)
    assert decide(chat, ObservedState(working=True), NOW) == decision.Decision()
    found = observed.Ingested(ACTION, attached=observed.Attached(("c1", "c2")))
    status = decided(chat, ObservedState(observed=found)).status
    assert status.phase is Phase.READY_FOR_GPU
    [told] = [one for one in status.conditions if one.type == "AttachmentsIngested"]
    assert (told.status.value, told.message) == ("True", "2 of 2 files are in the knowledge base.")


def test_what_of_a_file_could_not_be_read_is_named_beside_what_was() -> None:
    mail = task(Phase.QUALIFYING, spec={"attachments": FILES})
    partly = (("a.txt", "page 4 could not be looked at: it cannot be drawn"),)
    found = observed.Ingested(ACTION, attached=observed.Attached(("c1",), partly=partly))
    [told] = [
        one
        for one in decided(mail, ObservedState(observed=found)).status.conditions
        if one.type == "AttachmentsIngested"
    ]
    assert (told.status.value, told.reason) == ("True", "Ingested")
    assert told.message == (
        "2 of 2 files are in the knowledge base. a.txt: page 4 could not be looked at: it cannot be drawn"
    )


@pytest.mark.parametrize(("away", "reason"), [(False, "Rejected"), (True, "Unavailable")])
def test_a_bad_file_is_named_and_holds_nothing_up(away: bool, reason: str) -> None:
    mail = task(Phase.QUALIFYING, spec={"attachments": FILES})
    refused = (("a.txt", "the document has macros. Save it without macros."),)
    found = observed.Ingested(ACTION, attached=observed.Attached((), refused, away))
    status = decided(mail, ObservedState(observed=found)).status
    assert status.phase is Phase.READY_FOR_GPU
    [told] = [one for one in status.conditions if one.type == "AttachmentsIngested"]
    assert (told.status.value, told.reason) == ("False", reason)
    assert told.message == (
        "1 of 2 files are in the knowledge base. a.txt: the document has macros. Save it without macros."
    )


@pytest.mark.parametrize(("hints", "failure", "phase"), [NEWS, WORK, UNCLEAR])
def test_what_a_reader_does_not_see_is_told(hints: Hints, failure: str, phase: Phase) -> None:
    mail = task(Phase.QUALIFYING)
    unseen = tuple(f"Comment: {number} {'x' * 300}" for number in range(12))
    found = observed.Ingested(hints, directive=failing(failure), hidden=unseen)
    status = decided(mail, ObservedState(observed=found)).status
    assert status.phase is phase
    [told] = [one for one in status.conditions if one.type == "HiddenText"]
    assert (told.status.value, told.reason) == ("True", "HiddenTextFound")
    assert told.message.startswith("A reader does not see all of the content. Comment: 0 xxx")
    assert told.message.endswith("; and 2 more")
    seen = decided(mail, ObservedState(observed=replace(found, hidden=()))).status
    assert all(one.type != "HiddenText" for one in seen.conditions)


@pytest.mark.parametrize(("hints", "failure", "phase"), [NEWS, WORK, UNCLEAR])
def test_superseded_content_is_routed_by_its_hints_and_its_conditions_say_what_is_stored(
    hints: Hints, failure: str, phase: Phase
) -> None:
    mail = task(Phase.QUALIFYING, spec={"attachments": FILES})
    found = observed.Ingested(hints, directive=failing(failure), superseded="There is a newer version.")
    status = decided(mail, ObservedState(observed=found)).status
    assert status.phase is phase
    conditions = {one.type: one for one in status.conditions}
    assert conditions["Qualified"].status.value == "True"
    assert conditions["Qualified"].message.endswith(". There is a newer version.")
    files = conditions["AttachmentsIngested"]
    assert (files.status.value, files.reason) == ("False", "Superseded")
    assert files.message == "0 of 2 files are in the knowledge base. There is a newer version."


def test_files_of_one_name_do_not_replace_each_other() -> None:
    drafts = ingest.file_drafts(task(spec={"attachments": FILES}))
    assert [one.name for one in drafts] == ["a.txt", "a.txt (2)"]
    assert {one.attached_to for one in drafts} == {f"task::{UID}"}


@pytest.mark.parametrize(
    "header",
    [
        f"Content-Type: multipart/mixed; boundary={'(' * 20_000}",
        f"Content-Type: text/plain; {'a=b; ' * 6000}",
        f"To: {'(' * 20_000}",
    ],
)
def test_a_hostile_header_costs_neither_title_nor_sender(header: str) -> None:
    text = (
        f"From: =?utf-8?q?Jana_Nov=C3=A1?=\n =?utf-8?q?kov=C3=A1?= <jana@acme.example>\nSubject: Plán\n{header}\n\nHi"
    )
    mail = task(spec={"content": text, "sourceUrn": "email::m1"})
    assert ingest.content_title(mail) == "Plán"
    assert ingest.link_source(mail) == {
        "source_urn": "email::m1",
        "source_kind": "email",
        "subject": "Plán",
        "sender": "Jana Nováková <jana@acme.example>",
    }


def test_a_subject_that_spells_no_letter_costs_not_the_mail() -> None:
    mail = task(spec={"content": "From: a@b.cz\nSubject: =?utf-7?q?+2AA-?= Hi\n\nHi"})
    assert ingest.ingest_request(mail, []).title.endswith("Hi")


@pytest.mark.parametrize(
    ("linked", "told"),
    [
        (observed.Linked(links=0, made=0), ""),
        (observed.Linked(links=1, made=1), " 1 link found, 1 processed as tasks (1 new)."),
        (observed.Linked(links=3, made=0), " 3 links found, 3 processed as tasks (0 new)."),
        (
            observed.Linked(links=3, made=1, refused=("exceeded quota", "exceeded quota")),
            " 3 links found, 1 processed as tasks (1 new). 2 refused: exceeded quota",
        ),
    ],
)
@pytest.mark.parametrize(("hints", "failure", "phase"), [NEWS, UNCLEAR])
def test_the_condition_counts_the_links(
    linked: observed.Linked, told: str, hints: Hints, failure: str, phase: Phase
) -> None:
    mail = task(Phase.QUALIFYING)
    found = observed.Ingested(hints, reason="so it is.", directive=failing(failure), linked=linked)
    status = decided(mail, ObservedState(observed=found)).status
    assert status.phase is phase
    [condition] = [one for one in status.conditions if one.type == "Qualified"]
    assert condition.message == f"{failure or 'information only: so it is.'}{told}"
    assert "link" not in present(status.route).reason


def test_operational_errors_back_off_for_ever_and_stay_ready_for_qualification() -> None:
    current, waits, told = task(Phase.READY_FOR_QUALIFICATION), [], list[str]()
    now = NOW
    for _ in range(9):
        made = decide(current, ObservedState(), now)
        assert made.phase is Phase.QUALIFYING
        told += [made.note.reason] if made.note else []
        current = apply(current, made.status_patch)
        made = decide(current, ObservedState(observed=AWAY), now)
        assert made.phase is Phase.READY_FOR_QUALIFICATION
        waits.append(made.requeue_after)
        told += [made.note.reason] if made.note else []
        current = apply(current, made.status_patch)
        assert decide(current, ObservedState(), now).requeue_after == waits[-1]
        now = present(present(current.status.retry).next_at)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert told == ["Qualifying", "QualificationPostponed"], "one Event per row of failures"


def test_a_wait_that_was_written_under_another_clock_is_over() -> None:
    retry = {"count": 1, "nextAt": (NOW + timedelta(hours=1)).isoformat(), "reason": "away"}
    assert decide(task(Phase.READY_FOR_QUALIFICATION, status={"retry": retry}), OPEN, NOW).phase is Phase.QUALIFYING


def test_retry_after_is_obeyed_when_it_is_longer() -> None:
    made = decide(task(Phase.QUALIFYING), ObservedState(observed=replace(AWAY, retry_after=42.0)), NOW)
    assert made.requeue_after == 42


def test_a_wrong_content_is_an_error_that_names_field_and_remedy() -> None:
    status = decided(task(Phase.QUALIFYING), ObservedState(observed=WRONG)).status
    assert status.phase is Phase.ERROR
    assert status.completed_at == NOW
    assert "kind" in status.conditions[0].message
    assert "Choose another." in status.conditions[0].message


READ = observed.Ingested(Hints(), summary="News.", generation=1)


@pytest.mark.parametrize("found", [READ, replace(AWAY, generation=1), replace(WRONG, generation=1)])
@pytest.mark.parametrize("phase", [Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING])
def test_what_was_found_out_about_an_earlier_generation_decides_nothing(phase: Phase, found: observed.Reading) -> None:
    made = decide(task(phase, generation=2), ObservedState(observed=found), NOW)
    assert (made.phase or phase) is Phase.QUALIFYING
    # A second reading of another version would follow at once, and a third.
    (effect,) = made.effects
    assert isinstance(effect, decision.Ingest)
    assert (effect.after > 0) == (phase is Phase.QUALIFYING)


def test_files_of_a_question_that_was_edited_are_read_again() -> None:
    spec = {"type": "UserInputProcessing", "attachments": FILES}
    made = decide(task(Phase.QUALIFYING, spec=spec, generation=2), ObservedState(observed=READ), NOW)
    assert made.effects == (decision.Ingest(qualifying.STALE_SECONDS),)


def test_information_only_is_done() -> None:
    status = decided(task(Phase.QUALIFYING), ObservedState(observed=observed.Ingested(Hints(), summary="News."))).status
    assert (status.phase, status.result.summary if status.result else "") == (Phase.DONE, "News.")


def test_after_a_restart_ingestion_is_repeated_once_no_reading_is_under_way() -> None:
    assert decide(task(Phase.QUALIFYING), ObservedState(working=True), NOW) == decision.Decision()
    assert decide(task(Phase.QUALIFYING), ObservedState(), NOW).effects == (decision.Ingest(),)


def said(*questions: str, failure: str = "") -> api.QualifierDirective:
    """What hints of a knowledge base say that names no directive."""
    return api.Hints(
        has_actionable_content=True,
        is_assigned_to_me=False,
        has_future_deadline=False,
        urgency="normal",
        reason="",
        questions=list(questions),
        failure=failure,
    ).directive()


def test_questions_of_the_qualifier_go_to_a_person_before_any_run() -> None:
    current = task(Phase.QUALIFYING, spec={"answers": [{"id": "q1", "text": "written before"}]})
    found = observed.Ingested(ACTION, directive=said("Which account?", " ", "By when?"))
    asked = decided(current, ObservedState(observed=found))
    status = asked.status
    assert (status.phase, status.route.decision if status.route else "") == (Phase.USER_TASK, "Ask")
    assert status.user_task is not None
    assert [(one.id, one.text) for one in status.user_task.questions] == [("q2", "Which account?"), ("q3", "By when?")]
    assert decide(asked, OPEN, NOW) == decision.wait(), "what was there before is no answer"
    raw = asked.wire()
    raw["spec"]["answers"] += [{"id": "q2", "text": "The old one"}, {"id": "q3", "text": "Friday"}]
    answered = pendingtask.PendingTask.model_validate(raw)
    assert decide(answered, OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_what_nothing_can_be_done_about_is_a_failure_that_a_person_decides() -> None:
    failed = decided(task(Phase.QUALIFYING), ObservedState(observed=observed.Ingested(Hints(), directive=FAIL)))
    status = failed.status
    assert (status.phase, status.route.decision if status.route else "") == (Phase.USER_TASK, "Fail")
    assert present(status.result).summary == "It is encrypted."
    again = changed(failed, spec={"approval": pendingtask.Approval(verdict="Rejected", request_id=status.request_id)})
    assert decide(again, OPEN, NOW).phase is Phase.ERROR


@pytest.mark.parametrize("type_", ["UserTask", "UserInputProcessing"])
@pytest.mark.parametrize("directive", [FAIL, said("Which?")])
def test_what_a_user_made_on_purpose_is_run_and_may_ask_for_itself(
    type_: str, directive: api.QualifierDirective
) -> None:
    found = observed.Ingested(ACTION, directive=directive)
    assert (
        decide(task(Phase.QUALIFYING, spec={"type": type_}), ObservedState(observed=found), NOW).phase
        is Phase.READY_FOR_GPU
    )


def test_what_repeats_another_task_is_done_and_what_is_similar_is_said() -> None:
    repeated = observed.Ingested(Hints(), repeats="The same content came with task mail-0.")
    status = after(current := task(Phase.QUALIFYING), decide(current, ObservedState(observed=repeated), NOW))
    assert status.phase is Phase.DONE
    assert (present(status.route).decision.value, present(status.route).reason) == ("InfoOnly", repeated.repeats)
    [said] = [one for one in status.conditions if one.type == "Duplicate"]
    assert (said.status.value, said.reason, said.message) == ("True", "SameContent", repeated.repeats)
    similar = observed.Ingested(ACTION, similar="93% of its words are those of email::<m1@acme.com>.")
    status = decided(current, ObservedState(observed=similar)).status
    assert status.phase is Phase.READY_FOR_GPU
    [said] = [one for one in status.conditions if one.type == "Duplicate"]
    assert (said.status.value, said.reason, said.message) == ("True", "SimilarContent", similar.similar)


@pytest.mark.parametrize(
    ("spec", "metadata", "always"),
    [
        ({}, {}, False),
        ({"mode": "Foreground"}, {}, True),
        ({"type": "UserTask"}, {}, True),
        ({"type": "ScheduledTask"}, {}, True),
        ({"type": "LinkProcessing"}, {}, True),
        ({"sourceUrn": None}, {}, True),
        ({"schedule": {"at": "2027-03-01T12:00:00Z"}}, {}, True),
        ({}, {"labels": {"jervis.dev/template-uid": "t"}}, True),
    ],
)
def test_what_a_user_ordered_is_always_read(spec: dict[str, Any], metadata: dict[str, Any], always: bool) -> None:
    sent = ingest.ingest_request(task(Phase.QUALIFYING, spec={"sourceUrn": "email::<1@a>", **spec}, **metadata), [])
    assert (present(sent.task).fingerprint == "") is always
    assert (present(sent.task).uid, present(sent.task).name) == (UID, "default/mail-1")


def test_the_hash_is_of_what_comes_with_the_task() -> None:
    def digest(correlation: str = "c", **spec: Any) -> str:
        known = {"sourceUrn": "email::<1@a>", "correlationId": correlation, **spec}
        sent = ingest.ingest_request(task(Phase.QUALIFYING, spec=known), [])
        return present(sent.task).fingerprint

    other = [{**FILES[0], "contentRef": {**FILES[0]["contentRef"], "sha256": "1" * 64}}]
    assert digest() == digest("another", queuePosition=3)
    assert len({digest(), digest(content="x"), digest(attachments=FILES[:1]), digest(attachments=other)}) == 4
    assert digest(type="WikiProcessing") != digest()


def test_facts_of_the_source_go_with_the_text_and_belong_to_the_hash() -> None:
    facts = {
        "nodes": [{"key": "jira::SHOP-1", "type": "jira_issue", "properties": {"status": "Open", "votes": 3}}],
        "relationships": [{"source": "SHOP-1", "type": "assigned_to", "target": "user:jana", "at": "assignee"}],
    }
    plain, known = (
        ingest.ingest_request(task(Phase.QUALIFYING, spec={"sourceUrn": "jira::SHOP-1", **more}), [])
        for more in ({}, {"facts": facts})
    )
    assert known.nodes[0].properties == {"status": "Open", "votes": 3}
    assert [(one.source, one.type, one.target, one.at) for one in known.relationships] == [
        ("SHOP-1", "assigned_to", "user:jana", "assignee")
    ]
    assert present(plain.task).fingerprint != present(known.task).fingerprint
    nested = {"nodes": [{"key": "a:b", "type": "a", "properties": {"x": {"y": 1}}}]}
    with pytest.raises(pydantic.ValidationError, match=r"nodes\.0\.properties"):
        ingest.ingest_request(task(Phase.QUALIFYING, spec={"facts": nested}), [])


def test_every_type_has_a_kind_of_document() -> None:
    assert list(ingest.KINDS) == list(pendingtask.Type)


def test_images_go_with_the_text_under_the_names_of_the_files_until_a_task_has_waited_too_long() -> None:
    ref = {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": 5}
    files = [
        {"name": name, "mediaType": media_type, "contentRef": ref}
        for name, media_type in (
            ("a.png", "image/png"),
            ("notes.txt", "text/plain"),
            ("a.png", "image/png"),
            ("b.JPG", "application/octet-stream"),
            ("drawing.svg", "image/svg+xml"),
        )
    ]
    waiting = task(Phase.QUALIFYING, spec={"attachments": files, "content": "See the pictures."})
    sent = ingest.ingest_request(waiting, ["Core Team"])
    assert [one.name for one in sent.files] == ["a.png", "a.png (2)", "b.JPG"]
    assert sent.attachments == ["a.png", "notes.txt", "a.png (2)", "b.JPG", "drawing.svg"]
    retry = pendingtask.Retry(count=ingest.PATIENCE, next_at=NOW, reason="QualificationPostponed: busy")
    late = changed(waiting, status={"retry": retry})
    assert ingest.ingest_request(late, ["Core Team"]).files == []
    assert {one.looks for one in ingest.file_drafts(waiting)} == {True}
    assert {one.looks for one in ingest.file_drafts(late)} == {False}


def test_images_in_the_content_are_evidence_of_the_task() -> None:
    said = {"hasActionableContent": False, "isAssignedToMe": False, "hasFutureDeadline": False}
    shown = {"name": "a", "sourceUrn": "attachment::a", "mediaType": "image/png", "size": 9, "chunkIds": ["c2", "c3"]}
    reply = api.IngestReply.model_validate(
        {
            "sourceUrn": "email::1", "replaced": False, "chunkIds": ["c1"], "nodeKeys": [], "edgeCount": 0,
            "summary": "", "hints": {**said, "urgency": "low", "reason": ""}, "images": [shown],
        }
    )  # fmt: skip
    attached = observed.Attached(("c4",), (), False)
    assert ingest.ingested(reply, attached).chunk_ids == ("c1", "c2", "c3", "c4")
