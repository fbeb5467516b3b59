"""Hard rules decide the routes of tasks, by a knowledge base and its simulated models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pytest

from crds import scope
from kb import api, metrics
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.http import serving
from tests.kb.rules import test_enforce
from tests.operator import unwatched
from tests.operator.conftest import Space

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
FILE = {
    "name": "plan.txt",
    "mediaType": "text/plain",
    "contentRef": {"store": "gridfs", "key": "k1", "sha256": "0" * 64, "bytes": 5},
}
LINES = {
    "letters": "route InfoOnly when title letter",
    "careful": 'ask-before-execute "Is it paid?" when contains invoice',
    "secret": "never-index when contains confidential",
    "later": "route Defer 600 when source jira::LATER-*",
}


class Kept:
    async def in_force(self, viewer: scope.Scope) -> list[api.Rule]:
        return [test_enforce.rule(f"enforce: {line}", scopes.ACME, key) for key, line in LINES.items()]


async def test_tasks_go_where_rules_say(space: Space, local: dict[str, Any], tmp_path: Path) -> None:
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    with process.running(num_parallel=8) as fake:
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            stores = (memory.Vectors(), memory.Content())
            router = router_client.Client(fake.url, http)
            async with (
                world.opened(tmp_path, router, clocks.Clock(), meters, *stores, rules=Kept()) as kb,
                serving.over(kb, meters) as (_, served),
                unwatched.working(space, **local | {"kb_url": str(served.base_url).rstrip("/")}) as here,
            ):

                async def reaches(name: str, phase: str, text: str, **spec: Any) -> dict[str, Any]:
                    space.submit(name, text, type="EmailProcessing", **spec)
                    here.hear(space.get(name))
                    await here.until(lambda: space.phase(name) == phase, f"{name} reaches {phase}")
                    return space.status(name)

                plain = await reaches("plain", "ReadyForGpu", world.MAIL)
                letter = await reaches("letter", "Done", f"Subject: Our letter\n{world.MAIL}")
                invoice = await reaches("invoice", "UserTask", f"{world.MAIL}\nPay the invoice.")
                secret = await reaches("secret", "ReadyForGpu", f"{world.MAIL}\nConfidential.", attachments=[FILE])
                stored = (await kb.vectors.counts(scopes.ACME))[0]
                later = await reaches("later", "Scheduled", world.MAIL, sourceUrn="jira::LATER-1")
    assert "hard rule" not in said(plain)
    assert letter["route"]["decision"] == "InfoOnly"
    assert letter["route"]["hints"]["hasActionableContent"] is True
    assert "a hard rule decides: letters (version 1): route InfoOnly" in said(letter)
    assert invoice["userTask"]["questions"] == [{"id": "q1", "text": "Is it paid?"}]
    assert "careful (version 1): ask-before-execute" in said(invoice)
    assert "a hard rule forbids it: secret (version 1): never-index" in said(secret)
    assert said(secret, "AttachmentsIngested").startswith("0 of 1 files are in the knowledge base.")
    assert stored == 3, "all but the secret"
    assert later["route"]["decision"] == "Defer"
    assert later["scheduledFor"]


def said(status: dict[str, Any], condition: str = "Qualified") -> str:
    [found] = [one["message"] for one in status["conditions"] if one["type"] == condition]
    return str(found)
