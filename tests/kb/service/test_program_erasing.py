"""Documents, commits and rules of a process that is killed in the middle, and their erasure: on real stores."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from typing import Any

import pytest

from kb import api, client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import calls, scopes, world
from tests.kb.files import making
from tests.kb.ingest import test_commits as commits
from tests.kb.rules.test_enforce import draft
from tests.kb.service import callers, program
from tests.kb.service.callers import rejected
from tests.kb.service.program import stalled

pytestmark = pytest.mark.services


URN = "email::<m1@acme.com>"
DOCUMENTS = 60


async def test_an_erasure_goes_on_after_a_kill(run: program.Running) -> None:
    everything = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote a file?", max_results=100)
    async with run() as kb:
        for number in range(DOCUMENTS):
            await kb.client.learning.index(world.request(f"Petr Svoboda wrote file{number}.py.", urn=f"u:{number}"))
        await kb.client.learning.index(world.request("Petr Svoboda wrote kept.py.", urn="kept", owner=scopes.BLOG))
        kept = await kb.client.store(scopes.SHOP, b"a file")
        asked = await kb.client.erasing.ask(scopes.SHOP, "jana")

        async def begun() -> bool:
            found = await kb.metrics()
            return "jervis_kb_erased_documents_total 0.0" not in found

        await waiting.eventually(begun, pause=0.005)
        await kb.end(signal.SIGKILL)
    async with run() as kb:
        await kb.until_erased(scopes.SHOP, asked.id)
        assert (await kb.client.retrieve(everything)).items == []
        look = await calls.consistency(kb.client, scopes.SHOP)
        assert (look.documents, look.chunks, look.unfinished, look.findings) == (0, 0, 0, [])
        assert (await kb.client.queue.listed(scopes.SHOP)).total == 0
        with pytest.raises(client.Rejected, match="no"):
            await kb.client.fetch(scopes.SHOP, kept.key)
        [item] = (await kb.client.retrieve(everything.model_copy(update={"scope": scopes.BLOG}))).items
        assert item.provenance.source_urn == "kept"
        assert (await kb.client.learning.index(world.request(urn="u:1"))).replaced is False


async def test_attachments_through_tika(run: program.Running) -> None:
    async with run() as kb:
        await kb.client.learning.index(world.request())

        async def attach(raw: bytes, name: str) -> api.FileReply:
            kept = await kb.client.store(scopes.SHOP, raw, "application/octet-stream")
            draft = api.AttachmentDraft(scope=scopes.SHOP, attached_to=URN, name=name, content_ref=kept)
            return await kb.client.learning.attachment(draft)

        line = "The warranty ends in May 2031."
        made = await attach(making.docx(line), "terms.docx")
        about: dict[str, Any] = {"query": "When does the warranty end?", "sources": [api.attachment_sources(URN)]}
        question = api.RetrieveRequest(scope=scopes.SHOP, **about)
        [item] = (await kb.client.retrieve(question)).items
        assert (item.content, item.provenance.source_urn) == (line, made.source_urn)
        for hostile in (making.zip_bomb(300), making.mails_within_mails(60), b"%PDF-1.7 torn"):
            caught = await rejected(attach(hostile, "hostile.bin"))
            assert (caught.field, bool(caught.remedy)) == ("body", True)
        await kb.client.forget(scopes.SHOP, URN)
        assert (await kb.client.retrieve(question)).items == []


MANY = 120


def some() -> api.GitCommits:
    made = (
        commits.commit(f"{number:040x}", message=f"Change {number}", diff=f"+limit_{number} = {number}")
        for number in range(1, MANY + 1)
    )
    return commits.sent(*made)


async def test_commits_outlive_a_kill_and_leave_nothing(run: program.Running) -> None:
    async with run() as kb:
        sending = asyncio.create_task(kb.once.git_commits(some()))
        await kb.until_counted("jervis_kb_git_commits_total{", pause=0.005)
        await kb.end(signal.SIGKILL)
        with contextlib.suppress(client.Unavailable):
            await sending
    async with run() as kb:
        counted = Counter(commits.results(await kb.client.git_commits(some())))
        assert counted["Stored"] + counted["Unchanged"] == MANY
        assert commits.results(await kb.client.git_commits(some())) == ["Unchanged"] * MANY
        look = await calls.consistency(kb.client, scopes.SHOP)
        assert (look.documents, look.unfinished, look.findings) == (MANY, 0, [])
        asked = api.RetrieveRequest(scope=scopes.SHOP, query="limit_77", max_results=1)
        [found] = (await kb.client.retrieve(asked)).items
        assert found.provenance.source_urn == f"git::acme/shop@{77:040x}"
        before, now = (api.Observation(observer="repository", number=number) for number in (1, 2))
        await kb.client.observe(scopes.SHOP, now)
        removal = commits.sent(removed=[f"{77:040x}"])
        for late in (
            kb.client.git_commits(removal, on=before),
            kb.client.forget(scopes.SHOP, f"git::acme/shop@{77:040x}", before),
        ):
            caught = await rejected(late)
            assert (caught.status, caught.code, caught.field) == (409, "conflict", "observation")
        assert commits.results(await kb.client.git_commits(removal, on=now)) == ["Forgotten"]
        await kb.until_erased(scopes.SHOP, (await kb.client.erasing.ask(scopes.SHOP, "jana")).id)
        look = await calls.consistency(kb.client, scopes.SHOP)
        assert (look.documents, look.chunks, look.findings) == (0, 0, [])


async def test_a_rule_from_its_put_to_its_erasure(run: program.Running, fake: process.Fake) -> None:
    async with run() as kb:
        wrong = draft("x", "letters").model_dump(mode="json", by_alias=True)
        wrong["ruleContent"] = "Letters.\nenforce: route InfoOnly when sender a@b.test or kind email"
        refused = await kb.http.put("/api/v1/rules", json=wrong)
        said = refused.json()["error"]
        assert (refused.status_code, said["field"]) == (422, "ruleContent")
        assert "joined by `and`" in said["message"]
        assert "docs/rules.md" in said["remedy"]
        before = await kb.client.ingest(world.request())
        assert (before.hints.route, before.hints.has_actionable_content, before.rules) == (None, True, [])
        made = await kb.client.rules.put(draft("enforce: route InfoOnly when sender JANA@*", "letters"))
        after = await kb.client.ingest(world.request())
        assert after.hints == before.hints.model_copy(update={"route": "InfoOnly"})
        assert [(one.scope, one.rule_key, one.version) for one in after.rules] == [(made.scope, "letters", 1)]
        elsewhere = await kb.client.ingest(world.request(owner=scopes.TILL))
        assert elsewhere.hints.route is None
        await kb.client.rules.put(draft('enforce: route Ask "Is it ours?" when kind email', "letters"))

        fake.set_faults([stalled("kb.qualify.email/v2")])
        text = f"{world.MAIL}\nAnd again."
        asked = fake.count(tag="kb.qualify.email/v2")
        reading = asyncio.create_task(kb.client.ingest(world.request(text)))

        await waiting.eventually(lambda: fake.count(tag="kb.qualify.email/v2") > asked)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await kb.end(signal.SIGKILL)
    fake.set_faults([])
    async with run() as kb:
        again = await kb.client.ingest(world.request(text))
        assert (again.hints.route, again.hints.questions) == ("Ask", ["Is it ours?"])
        assert [one.version for one in again.rules] == [2]
        assert 'jervis_kb_ruled_total{route="Ask"}' in await kb.metrics()
        erasure = await kb.http.post("/api/v1/erasures", json={"scope": callers.SHOP, "by": "jana"})
        assert erasure.is_success, erasure.text

        async def erased() -> bool:
            try:
                return (await kb.client.ingest(world.request(text))).hints.route is None
            except client.Unavailable:
                return False

        await waiting.eventually(erased)
        assert await kb.client.rules.in_force(scopes.SHOP) == []
