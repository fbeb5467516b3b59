"""Once per key: an effect is killed at every write, its answers are lost, and it is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from crds import errors
from sources.api import problems
from sources.core import port
from sources.effects import ledger, wire
from tests.controllers.notices import smtp
from tests.sources.effects.rig import Rig, running
from tests.sources.parts import refused

pytestmark = pytest.mark.services
ISSUES = "/api/v1/repos/o/r/issues"
COMMENT = {"issue": "1", "text": "Hello."}
MAIL: dict[str, Any] = {"to": ["a@example.com"], "subject": "S", "text": "T"}


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running() as made:
        made.world.connect()
        made.world.rows[ISSUES] = [
            {
                "number": 1,
                "updated_at": "2026-11-26T11:00:00Z",
                "created_at": "2026-11-26T11:00:00Z",
                "html_url": "https://git.example/1",
            }
        ]
        made.world.rows[f"{ISSUES}/1/comments"] = []
        yield made


def mailbox(rig: Rig, box: smtp.Box) -> None:
    rig.world.mailbox(box.port)


def comments(rig: Rig) -> list[dict[str, Any]]:
    return rig.world.rows[f"{ISSUES}/1/comments"]


async def test_a_repeated_key_has_the_recorded_outcome(rig: Rig) -> None:
    first = await rig.effect("addComment", **COMMENT)
    assert (first.state, first.result["comment"]) == (wire.State.DONE, str(comments(rig)[0]["id"]))
    assert await rig.effect("addComment", **COMMENT) == first
    assert await rig.found() == first
    for tool, more in (("addComment", {"text": "Other."}), ("updateIssue", {"text": "Hello."})):
        with refused(problems.Conflict, field="key"):
            await rig.effect(tool, **(COMMENT | more))
    assert len(comments(rig)) == 1
    assert (await rig.effect("addComment", key="other", **COMMENT)).state is wire.State.DONE
    assert len(comments(rig)) == 2


# An effect writes: the entry, the claim, Sent, Done.
@pytest.mark.parametrize(("left", "made"), [(0, 0), (1, 0), (2, 0), (3, 1)])
async def test_a_comment_is_made_once_wherever_the_process_is_killed(rig: Rig, left: int, made: int) -> None:
    with rig.database.killed(left):
        await rig.effect("addComment", **COMMENT)
    assert len(comments(rig)) == made
    rig.later()
    assert (await rig.effect("addComment", **COMMENT)).state is wire.State.DONE
    assert len(comments(rig)) == 1
    assert len([call for call in rig.world.calls if call[0] == "POST"]) == 1


@pytest.mark.parametrize(
    ("left", "mails", "after", "state"), [(0, 0, 1, "Done"), (2, 0, 1, "Done"), (3, 1, 1, "Unknown")]
)
async def test_a_mail_is_sent_at_most_once_wherever_the_process_is_killed(
    rig: Rig, left: int, mails: int, after: int, state: str
) -> None:
    with smtp.serving() as box:
        mailbox(rig, box)
        with rig.database.killed(left):
            await rig.effect("sendMail", connection="mail", **MAIL)
        assert len(box.mails) == mails
        rig.later()
        for _ in range(3):
            found = await rig.effect("sendMail", connection="mail", **MAIL)
            assert found.state == state
        assert len(box.mails) == after
        assert found.result["messageId"] == str(box.mails[0]["Message-ID"])


async def test_a_process_that_was_killed_after_sent_leaves_what_may_have_happened(rig: Rig) -> None:
    with rig.database.killed(3):
        await rig.effect("addComment", **COMMENT)
    assert (await rig.found()).state is wire.State.PENDING
    with pytest.raises(ledger.Busy):
        await rig.effect("addComment", **COMMENT)
    rig.later()
    assert (await rig.found()).state is wire.State.UNKNOWN
    assert (await rig.effect("addComment", **COMMENT)).state is wire.State.DONE
    assert (await rig.found()).state is wire.State.DONE


async def test_a_lost_answer_is_looked_for_at_the_host(rig: Rig) -> None:
    rig.world.lose = True
    found = await rig.effect("addComment", **COMMENT)
    assert (found.state, len(comments(rig))) == (wire.State.DONE, 1)
    assert found.result["comment"] == str(comments(rig)[0]["id"])


async def test_what_the_host_did_not_do_is_done_only_when_it_is_quiet(rig: Rig) -> None:
    rig.world.fails = [(502, {})]
    with pytest.raises(port.Unreachable):
        await rig.effect("addComment", **COMMENT)
    assert (await rig.found()).state is wire.State.UNKNOWN
    with refused(port.Unreachable, retry_after=60, match="just now"):
        await rig.effect("addComment", **COMMENT)
    assert not comments(rig)
    rig.later()
    assert (await rig.effect("addComment", **COMMENT)).state is wire.State.DONE
    assert len(comments(rig)) == 1


@pytest.mark.parametrize(
    ("status", "kind"), [(429, errors.Operational), (422, errors.Permanent), (401, errors.Permanent)]
)
async def test_a_refusal_is_not_the_end_of_a_key(rig: Rig, status: int, kind: type[Exception]) -> None:
    rig.world.fails = [(status, {"Retry-After": "7"} if status == 429 else {})]
    with pytest.raises(kind) as caught:
        await rig.effect("addComment", **COMMENT)
    assert getattr(caught.value, "retry_after", 7.0) == 7.0
    found = await rig.found()
    assert (found.state, found.problem and found.problem.message) == (wire.State.NOT_DONE, str(caught.value))
    assert (await rig.effect("addComment", **COMMENT)).state is wire.State.DONE
    assert len(comments(rig)) == 1


async def test_a_mail_whose_answer_is_lost_is_unknown_and_stays_so(rig: Rig) -> None:
    with smtp.serving() as box:
        mailbox(rig, box)
        box.drops = True
        found = await rig.effect("sendMail", connection="mail", **MAIL)
        box.drops = False
        assert (found.state, len(box.mails)) == (wire.State.UNKNOWN, 1)
        rig.later()
        assert await rig.effect("sendMail", connection="mail", **MAIL) == found
        assert len(box.mails) == 1
        assert found.problem is not None
        assert "new key" in str(found.problem.remedy)


async def test_a_mail_that_the_server_refuses_is_not_sent_and_may_be_sent_later(rig: Rig) -> None:
    with smtp.serving() as box:
        mailbox(rig, box)
        for box.refuses, box.full, kind in (
            ("550 no such user", "", errors.Permanent), ("450 busy", "", errors.Operational),
            ("", "552 too large", errors.Permanent), ("", "451 later", errors.Operational),
        ):  # fmt: skip
            with pytest.raises(kind):
                await rig.effect("sendMail", connection="mail", **MAIL)
            assert (await rig.found()).state is wire.State.NOT_DONE
        box.refuses = box.full = ""
        assert (await rig.effect("sendMail", connection="mail", **MAIL)).state is wire.State.DONE
        assert len(box.mails) == 1


@pytest.mark.parametrize("said", ["OK queued\r\n", "\r\n", "!", "354 go on\r\n"])
async def test_a_mail_behind_whose_end_nothing_is_understood_is_unknown_and_stays_so(rig: Rig, said: str) -> None:
    with smtp.serving() as box:
        mailbox(rig, box)
        box.says = {".": said}
        outcome = await rig.effect("sendMail", connection="mail", **MAIL)
        assert outcome.state is wire.State.UNKNOWN
        box.says = {}
        rig.later()
        assert await rig.effect("sendMail", connection="mail", **MAIL) == outcome
        assert (box.commands.count("DATA"), box.mails) == (1, [])


async def test_a_mail_that_was_taken_with_another_code_is_done_once(rig: Rig) -> None:
    with smtp.serving() as box:
        mailbox(rig, box)
        box.full = "200 taken"
        for _ in range(3):
            assert (await rig.effect("sendMail", connection="mail", **MAIL)).state is wire.State.DONE
        assert box.commands.count("DATA") == 1


async def test_a_mail_that_is_cut_before_its_end_is_not_sent_and_is_sent_later(rig: Rig) -> None:
    with smtp.serving() as box:
        mailbox(rig, box)
        box.says = {"DATA": "354 go on\r\n!"}
        with pytest.raises(port.Unreachable):
            await rig.effect("sendMail", connection="mail", **MAIL | {"text": "x" * 200_000})
        assert (await rig.found()).state is wire.State.NOT_DONE
        box.says = {}
        outcome = await rig.effect("sendMail", connection="mail", **MAIL | {"text": "x" * 200_000})
        assert (outcome.state, len(box.mails)) == (wire.State.DONE, 1)


async def test_a_server_that_thinks_longer_than_an_effect_may_be_silent_has_sent_the_mail(rig: Rig) -> None:
    rig.patience = 1.0
    rig.push_by(None)
    with smtp.serving() as box:
        mailbox(rig, box)
        box.stall = 2.0
        assert (await rig.effect("sendMail", connection="mail", **MAIL)).state is wire.State.DONE
        assert len(box.mails) == 1


HTML = b"<html>\xe9 It was accepted</html>"


@pytest.mark.parametrize(
    ("status", "headers", "raw"),
    [
        (201, {"Content-Type": "text/html; charset=latin-1"}, HTML),
        (202, {}, b'{"queued": true}'),
        (204, {}, b""),
        (200, {}, b"[]"),
        (200, {}, b'{"id": 1'),
        (201, {}, '{"id": "\u017e"}'.encode("iso-8859-2")),
        (201, {"Content-Encoding": "br"}, b"xx"),
        (201, {}, b" " * ((32 << 20) + 1)),
        (500, {}, b""),
        (502, {}, HTML),
        (503, {"Retry-After": "7"}, b"x" * ((32 << 20) + 1)),
        (408, {}, b""),
    ],
)
async def test_an_answer_that_says_nothing_of_what_was_made_is_asked_about(
    rig: Rig, status: int, headers: dict[str, str], raw: bytes
) -> None:
    rig.world.replies = [(status, headers, raw)]
    outcome = await rig.effect("addComment", **COMMENT)
    assert (outcome.state, outcome.result["comment"]) == (wire.State.DONE, str(comments(rig)[0]["id"]))
    assert len(comments(rig)) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_change_goes_to_no_other_address(rig: Rig, status: int) -> None:
    rig.world.fails = [(status, {"Location": f"{rig.world.url}/api/v1/repos/o/renamed/issues/1/comments"})]
    with refused(port.Misconfigured, field="spec.url", match="renamed"):
        await rig.effect("addComment", **COMMENT)
    assert (await rig.found()).state is wire.State.NOT_DONE
    assert len(rig.world.calls) == 1


@pytest.mark.parametrize(("status", "headers"), [(403, {}), (429, {"Retry-After": "7"}), (404, {}), (401, {})])
async def test_a_limit_that_is_reached_behind_a_change_does_not_undo_it(
    rig: Rig, status: int, headers: dict[str, str]
) -> None:
    rig.world.gets = [(status, headers)]
    outcome = await rig.effect("updateIssue", issue="1", title="New")
    assert outcome.state is wire.State.DONE
    assert len(rig.world.calls) == 1


async def test_what_a_host_says_steers_no_terminal(rig: Rig) -> None:
    rig.world.fails = [(422, {})]
    rig.world.words = "\x1b]0;x\x07no"
    with pytest.raises(port.Misconfigured) as caught:
        await rig.effect("addComment", **COMMENT)
    assert str(caught.value).isprintable()


async def test_of_many_at_once_one_acts(rig: Rig) -> None:
    asked = [rig.effect("addComment", **COMMENT) for _ in range(8)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    done = [one for one in found if isinstance(one, wire.Outcome)]
    assert {type(one) for one in found} <= {wire.Outcome, ledger.Busy}
    assert done
    assert len(comments(rig)) == 1


async def test_a_process_that_was_frozen_does_nothing_when_it_wakes(rig: Rig) -> None:
    wanted = ledger.Wanted("team-a", rig.uid, "k", "addComment", "tracker", rig.run().scope, {})
    old = await rig.entries.claim(wanted, rig.now)
    assert isinstance(old, ledger.Claim)
    rig.later()
    with pytest.raises(ledger.Lost):
        await rig.entries.sent(old, {}, rig.now)
    new = await rig.entries.claim(wanted, rig.now)
    assert isinstance(new, ledger.Claim)
    assert new.fence == old.fence + 1
    with pytest.raises(ledger.Lost):
        await rig.entries.settle(old, ledger.DONE, rig.now, result={})
    await rig.entries.sent(new, {}, rig.now)
