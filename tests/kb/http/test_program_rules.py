"""Rules and the service as a process: put over HTTP, enforced at the next ingestion, kept by a kill, erased."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from crds import scope
from kb import api, client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.http import program

pytestmark = pytest.mark.services


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


def rule(key: str, content: str, owner: scope.Scope = scopes.SHOP) -> api.RuleDraft:
    return api.RuleDraft(
        scope=owner, rule_key=key, rule_type=api.RuleType.ROUTING, rule_content=content, created_by="jana"
    )


async def test_a_rule_from_its_put_to_its_erasure(
    run: program.Running, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        wrong = rule("letters", "x").model_dump(mode="json", by_alias=True)
        wrong["ruleContent"] = "Letters.\nenforce: route InfoOnly when sender a@b.test or kind email"
        refused = await http.put(f"{kb.url}/api/v1/rules", json=wrong)
        said = refused.json()["error"]
        assert (refused.status_code, said["field"]) == (422, "ruleContent")
        assert "joined by `and`" in said["message"]
        assert "docs/rules.md" in said["remedy"]
        before = await kb_client.ingest(world.request())
        assert (before.hints.route, before.hints.has_actionable_content, before.rules) == (None, True, [])
        made = await kb_client.rules.put(rule("letters", "enforce: route InfoOnly when sender JANA@*"))
        after = await kb_client.ingest(world.request())
        assert after.hints == before.hints.model_copy(update={"route": "InfoOnly"})
        assert [(one.scope, one.rule_key, one.version) for one in after.rules] == [(made.scope, "letters", 1)]
        elsewhere = await kb_client.ingest(world.request(owner=scopes.TILL))
        assert elsewhere.hints.route is None
        await kb_client.rules.put(rule("letters", 'enforce: route Ask "Is it ours?" when kind email'))

        fake.set_faults(
            [{"match": {"tag": "kb.qualify.email/v2"}, "stall": {"afterBytes": 0, "gate": f"r-{uuid.uuid4()}"}}]
        )
        text = f"{world.MAIL}\nAnd again."
        asked = fake.count(tag="kb.qualify.email/v2")
        reading = asyncio.create_task(kb_client.ingest(world.request(text)))

        await waiting.eventually(lambda: fake.count(tag="kb.qualify.email/v2") > asked)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await kb.end(signal.SIGKILL)
    fake.set_faults([])
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        again = await kb_client.ingest(world.request(text))
        assert (again.hints.route, again.hints.questions) == ("Ask", ["Is it ours?"])
        assert [one.version for one in again.rules] == [2]
        metrics = (await http.get(f"{kb.url}/metrics")).text
        assert 'jervis_kb_ruled_total{route="Ask"}' in metrics
        erasure = await http.post(
            f"{kb.url}/api/v1/erasures",
            json={"scope": scopes.SHOP.model_dump(by_alias=True), "by": "jana"},
        )
        assert erasure.is_success, erasure.text

        async def erased() -> bool:
            try:
                return (await kb_client.ingest(world.request(text))).hints.route is None
            except client.Unavailable:
                return False

        await waiting.eventually(erased)
        assert await kb_client.rules.in_force(scopes.SHOP) == []
