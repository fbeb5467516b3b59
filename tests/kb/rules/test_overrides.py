"""Rules that steer how a document is read: its type, its images, the language of its summary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients import http as outward
from contracts.rules import enforce_lines, extraction, routing
from crds import scope
from hack import drawing
from kb import api, client, errors, metrics, visibility
from kb.extract.qualifier import summary_language
from kb.files import tika
from kb.rules import enforce
from kb.rules import overrides as steered
from tests.clients import servers
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import conftest, scopes, world
from tests.kb.extract.qualifier.test_scenarios import TYPES, document
from tests.kb.files import making
from tests.kb.rules import test_enforce
from tests.kb.rules.test_ingest import Kept, kb
from tests.kb.service import whole
from tests.kb.service.callers import SHOP

CZECH = "Jana žádá o opravu přihlášení do pátku, protože se uživatelé nemohou přihlásit."
ENGLISH = "Jana asks for a fix of the login by Friday, because the users cannot log in."
GERMAN = "Jana bittet um die Korrektur der Anmeldung bis Freitag, weil sich die Nutzer nicht anmelden können."


__all__ = ["kb"]


@pytest.fixture
def kept() -> Kept:
    return Kept([])


@pytest.mark.parametrize("type_", extraction.TYPES)
@pytest.mark.parametrize("kind", TYPES)
async def test_a_document_is_read_as_the_type_that_a_rule_says(
    kb: world.ObservedState, fake: process.Fake, kept: Kept, kind: str, type_: str
) -> None:
    kept.rules = [test_enforce.rule(f"enforce: read-as {type_} when kind *", key="reads")]
    reply = await kb.ingest(document(kind))
    assert reply.qualification is not None
    assert reply.qualification.content_type.value == type_.upper()
    assert fake.count(path="/api/chat", tag="kb.qualify.detect/v2") == 0
    assert reply.rules == [api.RuleActed(scope=scopes.ACME, rule_key="reads", version=1, effect=f"read-as {type_}")]
    assert reply.hints.route is None


async def picture(kb: world.ObservedState) -> api.File:
    return api.File(name="shot.png", content_ref=await kb.content.save(scopes.SHOP, making.png(20, 10), "image/png"))


def attached(file: api.File) -> api.AttachmentDraft:
    """The file as one that came with the mail."""
    mail: dict[str, Any] = {"scope": scopes.SHOP, "attached_to": document("EMAIL").source_urn}
    return api.AttachmentDraft(**mail, name=file.name, content_ref=file.content_ref)


async def test_no_model_is_shown_an_image_that_a_rule_forbids_on_any_way(
    kb: world.ObservedState, fake: process.Fake, kept: Kept, meters: metrics.Metrics, clock: clocks.Clock
) -> None:
    file = await picture(kb)
    sent = document("EMAIL", files=[file], attachments=[file.name])
    kept.rules = [test_enforce.rule("enforce: never-look-at-images when kind email and not title party", key="blind")]
    reply = await kb.ingest(sent)
    assert reply.qualification is not None
    assert reply.qualification.vision == api.VisionContext()
    assert [one.effect for one in reply.rules] == ["never-look-at-images"]
    async with whole.over(kb, meters, clock, kept_rules=kept) as (typed, http):
        with pytest.raises(client.Rejected, match="'blind' \\(version 1\\) forbids to look"):
            await typed.learning.attachment(attached(file).model_copy(update={"title": "A title"}))
        # As a document of its own it is no mail.
        kept.rules = [test_enforce.rule("enforce: never-look-at-images when kind image")]
        where = {**SHOP, "filename": "shot.png"}
        raw = making.png(20, 10)
        for route in ("image", "file"):
            answer = await http.post(f"/api/v1/ingest/{route}", params=where, content=raw)
            assert (answer.status_code, "forbids to look" in answer.text) == (422, True), answer.text
        kept.rules = [test_enforce.rule("enforce: fly")]
        assert (await http.post("/api/v1/ingest/image", params=where, content=raw)).status_code == 422
        assert fake.count(path="/api/chat", tag="kb.describe/v1") == 0
        kept.rules = [test_enforce.rule("enforce: never-look-at-images when file *.gif")]
        assert (await http.post("/api/v1/ingest/image", params=where, content=raw)).status_code == 202
    assert fake.count(path="/api/chat", tag="kb.describe/v1") == 1


MAIL = "From: Eve <eve@evil.example>\nSubject: A title\n\nThe screen of the night shift is attached.\n"


@pytest.mark.parametrize(
    ("when", "looks"),
    [
        ("sender *@evil.example", False), ("contains \"night shift\"", False), ("not sender *@acme.com", False),
        ("sender *@acme.com", True), ("contains \"day shift\"", True), ("not contains \"night shift\"", True),
    ],
)  # fmt: skip
async def test_a_file_that_came_with_a_mail_is_seen_only_where_the_mail_allows_it(
    kb: world.ObservedState,
    fake: process.Fake,
    kept: Kept,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    when: str,
    looks: bool,
) -> None:
    kept.rules = [test_enforce.rule(f"enforce: never-look-at-images when kind email and {when}")]
    file = await picture(kb)
    await kb.ingest(document("EMAIL", content=MAIL, files=[file], attachments=[file.name]))
    async with whole.over(kb, meters, clock, kept_rules=kept) as (typed, _):
        if looks:
            await typed.learning.attachment(attached(file))
        else:
            with pytest.raises(client.Rejected, match="forbids to look"):
                await typed.learning.attachment(attached(file))
    assert (fake.count(path="/api/chat", tag="kb.describe/v1") > 0) is looks


@pytest.mark.services
@pytest.mark.parametrize(
    ("when", "looks"),
    [("sender *@acme.com", False), ('contains "the pictures"', False), ("sender *@globex.com", True)],
)
async def test_a_mail_that_comes_as_a_file_is_asked_for_its_sender_and_its_words(
    kb: world.ObservedState,
    fake: process.Fake,
    kept: Kept,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    when: str,
    looks: bool,
) -> None:
    kept.rules = [test_enforce.rule(f"enforce: never-look-at-images when kind email and {when}")]
    raw = making.pictures(drawing.picture("The pump P-17 leaks."))
    where = {**SHOP, "filename": "m.eml", "kind": "email"}
    async with outward.client(tls=servers.TLS) as web:
        parser = tika.Tika(conftest.required("JERVIS_TEST_TIKA_URL"), web)
        async with whole.over(kb, meters, clock, kept_rules=kept, parser=parser) as (_, http):
            answer = await http.post("/api/v1/ingest/file", params=where, content=raw.encode())
            assert (answer.status_code, len(answer.json()["images"])) == (202, int(looks)), answer.text
    assert fake.count(path="/api/chat", tag="kb.describe/v1") == int(looks)


def judged(summary: str) -> dict[str, Any]:
    return {
        "classification": "REQUEST", "hasActionableContent": True, "isAssignedToMe": False, "hasFutureDeadline": False,
        "suggestedDeadline": None, "urgency": "low", "summary": summary, "reason": "They ask.",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "summary", "calls"),
    [([CZECH], CZECH, 1), ([ENGLISH, CZECH], CZECH, 2), ([ENGLISH, GERMAN], "A title", 2), ([ENGLISH, "?"], "?", 2)],
)
async def test_a_summary_is_in_the_language_of_the_rule_or_there_is_none(
    kb: world.ObservedState, fake: process.Fake, kept: Kept, answers: list[str], summary: str, calls: int
) -> None:
    tag = "kb.qualify.email/v2"
    fake.set_script({tag: [judged(one) for one in answers]})
    kept.rules = [test_enforce.rule("enforce: summarize-in czech when kind email", key="words")]
    reply = await kb.ingest(document("EMAIL"))
    assert reply.summary == summary
    asked = fake.requests(path="/api/chat", tag=tag)
    assert len(asked) == calls
    assert "summary is written in Czech" in str(asked[0])
    assert ("not in Czech" in str(asked[-1])) is (calls > 1)
    assert reply.qualification is not None
    assert any("not in Czech" in one for one in reply.qualification.errors) is (summary == "A title")
    assert reply.hints.has_actionable_content


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (CZECH, "Czech"), (ENGLISH, "English"), (GERMAN, "German"),
        ("Der Server ist ausgefallen und wird bis morgen repariert.", "German"),
        ("The server is down and will be repaired by tomorrow.", "English"),
        ("Server nejede a do zítřka bude opraven.", "Czech"),
        ("Faktura č. 2026/114 od firmy Globex je splatná v pátek.", "Czech"),
        ("Rechnung 2026/114 von Globex ist am Freitag fällig.", "German"),
        ("Invoice 2026/114 from Globex is due on Friday.", "English"),
    ],
)  # fmt: skip
def test_a_language_is_known_by_its_words(text: str, written: str) -> None:
    assert [one for one in extraction.LANGUAGES if summary_language.fits(text, one)] == [written]


@given(st.text(max_size=200))
def test_any_text_fits_some_language_and_without_a_rule_all_do(text: str) -> None:
    assert any(summary_language.fits(text, one) for one in extraction.LANGUAGES)
    assert summary_language.fits(text, None)


NEVER = "never-look-at-images"


@given(scopes.ANY, scopes.ANY, st.sampled_from([NEVER, "read-as Log", "summarize-in German"]))
def test_a_rule_acts_in_its_scope_only(owner: scope.Scope, where: scope.Scope, effect: str) -> None:
    rules = [test_enforce.rule(f"enforce: {effect} when kind *", owner)]
    found = enforce.match_rules(rules, world.request(owner=where), world.MAIL).overrides
    holds = visibility.governs(owner, where)
    assert (found != steered.NONE) is holds
    assert (found.looks, found.read_as, found.language) == (
        not (holds and effect == NEVER),
        api.ContentType.LOG if holds and effect.startswith("read") else None,
        "German" if holds and effect.startswith("summ") else None,
    )
    facts = routing.Facts.of(kind="image", source="", title="", text="")
    try:
        steered.check_image(rules, where, facts)
        forbidden = False
    except errors.Invalid:
        forbidden = True
    assert forbidden is (holds and effect == NEVER)


def test_the_narrowest_rule_says_the_type_in_any_order() -> None:
    wide = test_enforce.rule("enforce: read-as Log when kind email", scopes.ACME, "a")
    narrow = test_enforce.rule("enforce: read-as Jira when kind email", scopes.SHOP, "a")
    for rules in ([wide, narrow], [narrow, wide]):
        met = enforce.match_rules(rules, world.request(), world.MAIL)
        assert met.overrides.read_as is api.ContentType.JIRA
        assert [rule.scope for rule, _ in met.overrides.lines] == [scopes.SHOP]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("read-as Mail when kind email", "Email, Jira, Confluence, Log, Generic"),
        ("read-as when kind email", "Email, Jira"),
        ("summarize-in Klingon when kind email", "English, Czech, German"),
        ("never-look-at-images", "when kind email"),
        ("never-look-at-images ever when kind email", "nothing stands between"),
        ("read-as Log when host a", "kind, source, sender, file, title, contains"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(line: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="cannot be enforced") as caught:
        enforce_lines.of(f"enforce: {line}")
    assert remedy in str(caught.value)
