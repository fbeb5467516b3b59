"""The operator and the knowledge base together: what a site is asked for when a mail has links, by the site's log."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crds import scope
from kb import api, metrics, mongo
from tests.conftest import api_client
from tests.kb import clock as clocks
from tests.kb import world
from tests.kb.crawl import site as sites
from tests.kb.links.test_reading import reaching
from tests.kb.service import whole
from tests.operator import process
from tests.operator.conftest import Space, database_name
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
MAIL = """From: Jana Novak <jana@acme.example>
Subject: Release 3.2

The gateway 3.2 is out. The release notes of the gateway are at http://docs.test/notes today.
The old page was http://docs.test/short before.
No more mails? Unsubscribe: http://shop.test/unsubscribe?u=1
"""


@pytest.fixture
def space(kubeconfig: Path) -> Iterator[Space]:
    made = api_client(kubeconfig)
    yield Space(made, f"t-{uuid.uuid4().hex[:8]}")
    made.close()


async def test_a_mail_with_three_links_and_the_same_mail_again(
    open_world: world.Opening,
    space: Space,
    kubeconfig: Path,
    tmp_path: Path,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
) -> None:
    async with (
        sites.served() as site,
        open_world() as kb,
        whole.over(kb, meters, clock, database=database, ingests=True, **reaching(site)) as (client, http),
    ):
        site.pages["/notes"] = sites.html("/further", text="The gateway limits uploads to 2 GB.")
        # As a shortener would hide it.
        site.pages["/short"] = web.Response(status=302, headers={"Location": "http://shop.test/unsubscribe?u=2"})
        settings = {
            "KUBECONFIG": kubeconfig,
            "NAMESPACE": space.name,
            "KB_URL": str(http.base_url).rstrip("/"),
            "MONGODB_URI": os.environ["JERVIS_TEST_MONGODB_URI"],
            "MONGODB_DATABASE": database_name(space),
            "ARCHIVE_SECONDS": 3600,
        }

        def submit(name: str) -> None:
            space.submit(name, MAIL, projectId="shop", sourceUrn=f"email::{name}@acme.example", type="EmailProcessing")

        def links() -> list[dict[str, Any]]:
            return [one for one in space.every() if one["spec"]["type"] == "LinkProcessing"]

        def followed() -> None:
            with process.running(tmp_path / "operator.log", None, **settings):
                submit("m1")
                until(lambda: len(links()) == 3, "each link has a task")
                until(lambda: {space.phase(one["metadata"]["name"]) for one in links()} == {"Done"}, "they are done")
                submit("m2")
                until(lambda: "route" in space.status("m2"), "the second mail is routed")
                assert len(links()) == 3
                told = {
                    one["spec"]["sourceUrn"]: one["status"]["result"]["summary"].partition(":")[0] for one in links()
                }
                assert told == {
                    "link::http://docs.test/notes": "Indexed",
                    "link::http://docs.test/short": "Refused",
                    "link::http://shop.test/unsubscribe?u=1": "Blocked",
                }

        await asyncio.to_thread(followed)
        asked = [path for _, path in site.asked]
        assert sorted(path for path in asked if path != "/robots.txt") == ["/notes", "/short"]
        assert "shop.test" not in {host for host, _ in site.asked}
        shop = scope.Scope(client_id="acme", project_id="shop")
        proven = await kb.graph.relationships(
            shop, source="link::http://docs.test/notes", edge_type="found_in", target="email::m1@acme.example"
        )
        assert len(proven) == 1
        found = await client.retrieve(
            api.RetrieveRequest(scope=shop, query="upload limit of the gateway", kinds=["link"])
        )
        assert "2 GB" in found.items[0].content
