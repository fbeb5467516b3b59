"""Effects at Connections through the sources process: once, exactly as shown, and only where it is allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from contracts.tokens import runtoken
from crds import exit_reasons, pendingtask
from kb import client as kb_client
from orchestrator_job import errors, outcome
from orchestrator_job.effects import ledger, ledger_entries
from orchestrator_job.effects.tools import knowledge, port, remote_effects
from orchestrator_job.store import fence, mongo, retry
from sources import client as sources_client
from tests.controllers.notices import smtp
from tests.orchestrator_job.effects.tools import parts
from tests.sources.effects import test_exactly_once, test_serving
from tests.sources.effects.rig import Rig, running

pytestmark = pytest.mark.services
ISSUES = "/api/v1/repos/o/r/issues"
MAIL: dict[str, Any] = {
    "connection": "mail", "to": ["ann@acme.example"], "cc": ["bob@acme.example"], "bcc": ["eve@acme.example"],
    "subject": "The backup", "text": "It is repaired.\n-- \nJervis",
}  # fmt: skip


class Run:
    """Processes of a run, with a ledger each."""

    def __init__(self, made: parts.Parts, rig: Rig) -> None:
        self.made, self.rig = made, rig
        self.decisions: list[pendingtask.Decided] = []
        self._book: ledger.Ledger

    async def does(self, name: str, given: dict[str, Any], ordinal: int = 1, **settings: Any) -> ledger_entries.Receipt:
        """Have the call settled by another process of the run."""
        tools, guard = await self.made.box(**settings)
        tool = parts.acting(tools, name)
        database = mongo.Database(self.made.store.client, self.made.store.name, retry.Retry(5))
        self._book = book = ledger.Ledger(database, guard, lambda: parts.NOW, self.decisions)
        parsed = port.parse(tool, given)
        return await book.settle("r1.d1", ordinal, tool.effect(parsed, parts.place(ordinal)))

    async def decide(self, verdict: pendingtask.Verdict) -> None:
        """Of a person, who is asked by the last process."""
        assert not await self._book.resolved("r1.d1", 1)
        await self._book.show("r1.d1", 1)
        self.decisions.append(
            pendingtask.Decided(
                request_id=f"q{self.made.attempt}", verdict=verdict, attempt=self.made.attempt, decided_at=parts.NOW,
                decided_by="ann",
            )
        )  # fmt: skip


@pytest.fixture
async def run(opening: parts.Opening) -> AsyncIterator[Run]:
    async with running() as rig, opening(rig.uid) as made:
        rig.world.connect()
        rig.world.rows |= {ISSUES: [{"number": 1, "updated_at": "2026-11-26T11:00:00Z"}], f"{ISSUES}/1/comments": []}
        rig.world.contents = parts.Contents(made.content)
        async with parts.sourced(made, test_serving.served(rig, [])):
            yield Run(made, rig)


async def test_a_comment_is_written_once_by_however_many_processes(run: Run) -> None:
    given = {"connection": "tracker", "issue": "1", "text": "Repaired."}
    first = await run.does("add_comment", given)
    assert first["text"].startswith("Done: addComment.")
    # The ledger forgot that it was done, as after a kill between the answer and its record.
    run.made.store.database["orchestrator_ledger"].update_one({}, {"$set": {"state": "started", "result": None}})
    assert await run.does("add_comment", given) == first
    run.made.store.database["orchestrator_ledger"].delete_many({})
    # A model that worded it differently meanwhile: what was prepared is what is sent.
    assert await run.does("add_comment", {**given, "text": "Fixed."}) == first
    assert len(run.rig.world.rows[f"{ISSUES}/1/comments"]) == 1
    other = await run.does("add_comment", given, ordinal=2)
    assert other["key"] != first["key"]
    assert len(run.rig.world.rows[f"{ISSUES}/1/comments"]) == 2


async def test_an_issue_is_changed_in_what_was_given_and_once(run: Run) -> None:
    [issue] = run.rig.world.rows[ISSUES]
    issue |= {"title": "Old", "body": "Text.", "state": "open", "labels": [], "html_url": "https://git.example/1"}
    run.rig.world.rows["/api/v1/repos/o/r/labels"] = [{"id": 7, "name": "bug"}]
    given = {"connection": "tracker", "issue": "1", "title": "Better", "state": "closed", "labels": ["bug"]}
    first = await run.does("update_issue", given)
    assert first["text"].startswith("Done: updateIssue.")
    assert first["result"] == {"issue": "1", "url": "https://git.example/1"}
    assert (issue["title"], issue["state"], issue["body"]) == ("Better", "closed", "Text.")
    assert [one["name"] for one in issue["labels"]] == ["bug"]
    made = len(run.rig.world.calls)
    run.made.store.database["orchestrator_ledger"].delete_many({})
    assert await run.does("update_issue", given) == first
    assert len(run.rig.world.calls) == made


async def test_a_refusal_is_an_answer_and_nothing_happened(run: Run) -> None:
    given = {"connection": "tracker", "issue": "1", "text": "T", "repository": "o/other"}
    refused = await run.does("add_comment", given)
    assert refused["failed"]
    assert "It was not done" in refused["text"]
    absent = await run.does("add_comment", {**given, "connection": "absent"}, ordinal=2)
    assert absent["failed"]
    assert run.rig.world.calls == []


async def test_a_mail_that_may_have_been_sent_is_decided_about_by_a_person(run: Run) -> None:
    with smtp.serving() as box:
        test_exactly_once.mailbox(run.rig, box)
        box.drops = True
        with pytest.raises(remote_effects.Unsure):
            await run.does("send_mail", MAIL)
        box.drops = False
        with pytest.raises(errors.MayHaveHappened):
            await run.does("send_mail", MAIL)
        assert len(box.mails) == 1
        await run.decide(pendingtask.Verdict.APPROVED)
        again = await run.does("send_mail", MAIL)
        assert (len(box.mails), again["key"]) == (2, "r1.d1_1.again2")
        assert await run.does("send_mail", MAIL) == again
        assert len(box.mails) == 2
        assert {one.strip("TO:<>") for one in box.recipients} == {
            f"{who}@acme.example" for who in ("ann", "bob", "eve")
        }


async def test_a_person_may_leave_it_at_that(run: Run) -> None:
    with smtp.serving() as box:
        test_exactly_once.mailbox(run.rig, box)
        box.drops = True
        with pytest.raises(remote_effects.Unsure):
            await run.does("send_mail", MAIL)
        with pytest.raises(errors.MayHaveHappened):
            await run.does("send_mail", MAIL)
        await run.decide(pendingtask.Verdict.REJECTED)
        assert (await run.does("send_mail", MAIL))["skipped"]
        assert len(box.mails) == 1


async def test_an_invitation_is_the_mail_with_its_event(run: Run) -> None:
    event = {
        "summary": "Release", "start": "2026-03-13T09:30:00", "end": "2026-03-13T10:00:00",
        "timeZone": "Europe/Prague", "organizer": "ann@acme.example", "attendees": ["bob@acme.example"],
    }  # fmt: skip
    tools, _ = await run.made.box()
    draft = await parts.called(tools, "save_draft", name="agenda.md", text="1. Release")
    attached = [{"name": "agenda.md", "mediaType": "text/markdown", "key": draft.artifacts[0]}]
    with smtp.serving() as box:
        test_exactly_once.mailbox(run.rig, box)
        given = {"to": ["bob@acme.example"], "subject": "Release", "text": "Come.", "event": event}
        await run.does("send_invitation", {**given, "attachments": attached}, mail_connection="mail")
        [sent] = box.mails
        agenda, invitation = [one for one in sent.walk() if one.get_filename()]
        assert (agenda.get_filename(), agenda.get_payload(decode=True)) == ("agenda.md", b"1. Release")
        assert b"METHOD:REQUEST" in bytes(invitation.get_payload(decode=True))
        missing = [{"name": "a", "key": "content-of-no-one"}]
        lost = await run.does("send_invitation", {**given, "attachments": missing}, ordinal=2, mail_connection="mail")
        assert lost["failed"]
        assert len(box.mails) == 1


async def test_aims_are_complete_and_allow_lists_come_before_persons(run: Run) -> None:
    tools, _ = await run.made.box()
    mail = parts.acting(tools, "send_mail")
    parsed = port.parse(mail, MAIL)
    assert dict(mail.aims(parsed)) == {
        "connection": "mail", "to.0": "ann@acme.example", "cc.0": "bob@acme.example", "bcc.0": "eve@acme.example",
    }  # fmt: skip
    shown = mail.shown(parsed)
    for word in ("sendMail at mail", "bcc: eve@acme.example", "subject: The backup", MAIL["text"]):
        assert word in shown
    strict = {
        "mail_recipients": ["*@acme.example"], "tracker_repositories": ["tracker/o/*"], "wiki_pages": ["wiki/4711"],
        "mail_connection": "mail", "tracker_connection": "tracker", "wiki_connection": "wiki",
    }  # fmt: skip
    tools, _ = await run.made.box(**strict)
    refused: list[tuple[str, dict[str, Any]]] = [
        ("send_mail", {**MAIL, "bcc": ["x@evil.example"]}),
        ("send_mail", {**MAIL, "cc": ["x@acme.example.evil.example"]}),
        ("create_issue", {"title": "T", "text": "T", "repository": "p/q"}),
        ("create_issue", {"title": "T", "text": "T"}),
        ("update_issue", {"issue": "1", "title": "T", "repository": "p/q"}),
        ("add_comment", {"issue": "1", "text": "T", "connection": "other", "repository": "o/r"}),
        ("edit_page", {"page": "4712", "text": "T"}),
    ]
    for name, given in refused:
        tool = parts.acting(tools, name)
        for call in (tool.aims, lambda one, tool=tool: tool.effect(one, parts.place())):
            with pytest.raises(port.Misused, match="settings allow"):
                call(port.parse(tool, given))
    issue = parts.acting(tools, "add_comment")
    own = port.parse(issue, {"issue": "7", "text": "T", "repository": "o/r"})
    assert dict(issue.aims(own)) == {"repository": "o/r", "issue": "7"}
    run.made.rules = "enforce: never-say account number"
    tools, _ = await run.made.box()
    said = parts.acting(tools, "add_comment")
    with pytest.raises(port.Misused, match="forbids to say"):
        said.aims(port.parse(said, {"connection": "tracker", "issue": "1", "text": "The Account\n number is 7"}))
    with pytest.raises(port.Misused, match="name the Connection"):
        said.aims(port.parse(said, {"issue": "1", "text": "T"}))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("send_mail", {**MAIL, "to": ["a@b.example\r\nBcc: x@evil.example"]}),
        ("send_mail", {**MAIL, "to": ["a@b.example, x@evil.example"]}),
        ("send_mail", {**MAIL, "to": [], "cc": [], "bcc": []}),
        ("send_mail", {**MAIL, "subject": "S\nBcc: x@evil.example"}),
        ("send_mail", {**MAIL, "inReplyTo": "<a@b>\r\nX: 1"}),
        ("send_mail", {**MAIL, "approved": True}),
        ("create_issue", {"title": "a\nb", "text": "t"}),
        ("add_comment", {"issue": "../1", "text": "t"}),
        ("update_issue", {"issue": "1"}),
        ("edit_page", {"page": "1/../2", "text": "t"}),
    ],
)
async def test_what_is_no_call_is_said_to_the_model(run: Run, name: str, wrong: dict[str, Any]) -> None:
    tools, _ = await run.made.box()
    with pytest.raises(port.Misused, match=name):
        port.parse(tools.tools[name], wrong)


def test_keys_at_the_sources_process_are_its_own() -> None:
    assert remote_effects.source_key("0b7f/r1.d1.2/3", 1) == "r1.d1.2_3"
    assert remote_effects.source_key("0b7f/r1.d1.2/3", 2) == "r1.d1.2_3.again2"
    assert len(remote_effects.source_key(f"0b7f/r1.{'d' * 200}/3", 1)) == 64
    assert fence.COLLECTION != remote_effects.COLLECTION


async def test_a_token_that_is_refused_is_no_answer_to_a_call(opening: parts.Opening) -> None:
    """The run ends and is resumed with another token: what was approved is done then."""

    def over(claims: runtoken.Claims) -> None:
        raise runtoken.Ended("run 1 of task x is over")

    async with running() as rig, opening(rig.uid) as made:
        rig.world.connect()
        async with parts.sourced(made, test_serving.served(rig, []), lives=over):
            run = Run(made, rig)
            given = {"connection": "tracker", "issue": "1", "text": "Repaired."}
            with pytest.raises(sources_client.Rejected, match="is over") as refused:
                await run.does("add_comment", given)
            assert outcome.of_error(refused.value).reason is exit_reasons.ExitReason.UNAVAILABLE
            assert outcome.of_error(refused.value).unavailable == "sources"


@pytest.mark.parametrize(("status", "ends"), [(401, True), (403, False), (404, False)])
async def test_what_the_knowledge_base_refuses_is_read_unless_it_is_the_token(status: int, ends: bool) -> None:
    class Found(knowledge._Reading):
        async def found(self, given: Any) -> port.Result:
            raise kb_client.Rejected("no", status=status)

    reading = Found(cast(Any, None))
    if ends:
        with pytest.raises(kb_client.Rejected):
            await reading.read(None, parts.place())
    else:
        assert (await reading.read(None, parts.place())).failed
