"""From the restriction of a page at its source to the answers of the knowledge base, with real stores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from controllers.pendingtask.effects import ingest
from crds import pendingtask, scope
from crds.priority import Priority
from kb import api, client
from tests.kb.service import program
from tests.sources import test_atlassian_histories as sites
from tests.sources.model import World

pytestmark = pytest.mark.services
ACME = scope.Scope(client_id="acme")
PAGE, NOTES = "The pump of hall seven leaks oil.", "The valve of hall seven is stuck."
MEMBER, OTHER = ("user:jana", "group:confluence-space:ops", "group:dev"), ("user:petr", "group:confluence-space:ops")


async def qualify(world: World, kb: client.Client, created: Callable[[int], str]) -> int:
    """Ingest what comes with the new tasks, as the operator does; how many there were."""
    count = 0
    for number, raw in enumerate(world.tasks.values()):
        if raw["status"]["phase"] == "New":
            meta = raw["metadata"] | {"namespace": "here", "creationTimestamp": created(number)}
            task = pendingtask.PendingTask.model_validate({**raw, "metadata": meta})
            await kb.ingest(ingest.ingest_request(task, []), urgency=Priority.P3)
            await ingest.ingest_files(kb, task, Priority.P3)
            raw["status"]["phase"] = "Done"
            count += 1
    return count


async def test_a_page_is_shown_to_those_to_whom_the_wiki_shows_it(run: program.Running) -> None:
    async with (
        run() as kb,
        sites.rig("Confluence", 7, True, every=3600, knows=kb.url) as one,
        httpx.AsyncClient(trust_env=False, timeout=60) as http,
    ):
        server = one.site.server
        server.late = timedelta(0)
        page = server.put("OPS", title="Pump", body=f"<p>{PAGE}</p>")
        server.put("OPS", title="Door", body="<p>The door of hall seven is green.</p>")
        server.put("OPS", kind="attachment", parent=page.id, title="notes.txt", file=f"{NOTES}\n".encode())

        async def shown(*principals: str) -> tuple[bool, bool]:
            """Whether the page, and its attachment, are in the answers."""
            asked = api.RetrieveRequest(scope=ACME, query="pump valve hall seven", max_results=20)
            found = await client.Client(kb.url, http, principals=principals).retrieve(asked)
            text = " ".join(item.content for item in found.items)
            assert "door of hall seven" in text
            return PAGE in text, NOTES in text

        async def polled() -> int:
            await one.round()
            return await qualify(one.world, kb.client, lambda number: f"2026-03-01T00:00:{number:02d}Z")

        assert await polled() == 2
        assert [await shown(*MEMBER), await shown(*OTHER), await shown()] == [(True, True)] * 3
        page.readers = {"group": ["Dev"]}
        assert await polled() == 1, "the page is sent again, the others are not"
        assert [await shown(*MEMBER), await shown(*OTHER), await shown()] == [
            (True, True),
            (False, False),
            (True, True),
        ]
        page.readers = {"user": ["petr"]}
        assert await polled() == 1
        assert [await shown(*MEMBER), await shown(*OTHER)] == [(False, False), (True, True)]
        page.readers = {}
        assert await polled() == 1
        assert [await shown(*MEMBER), await shown(*OTHER)] == [(True, True)] * 2
        assert await polled() == 0
