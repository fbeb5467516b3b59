"""Commits on real stores: killed in the middle, sent again, found by their diff, erased."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter

import httpx
import pytest

from kb import api, client
from tests import waiting
from tests.kb import scopes
from tests.kb.http import program
from tests.kb.ingest import test_commits as commits

pytestmark = pytest.mark.services
MANY = 120


def some() -> api.GitCommits:
    made = (
        commits.commit(f"{number:040x}", message=f"Change {number}", diff=f"+limit_{number} = {number}")
        for number in range(1, MANY + 1)
    )
    return commits.sent(*made)


async def test_commits_outlive_a_kill_and_leave_nothing(run: program.Running) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=300, verify=False) as http:
        async with run() as kb:
            sending = asyncio.create_task(client.Client(kb.url, http, attempts=1).git_commits(some()))

            async def begun() -> bool:
                return "jervis_kb_git_commits_total{" in (await http.get(f"{kb.url}/metrics")).text

            await waiting.eventually(begun, pause=0.005)
            await kb.end(signal.SIGKILL)
            with contextlib.suppress(client.Unavailable):
                await sending
        async with run() as kb:
            kb_client = client.Client(kb.url, http)
            counted = Counter(commits.results(await kb_client.git_commits(some())))
            assert counted["Stored"] + counted["Unchanged"] == MANY
            assert commits.results(await kb_client.git_commits(some())) == ["Unchanged"] * MANY
            look = await kb_client.looking.consistency(scopes.SHOP)
            assert (look.documents, look.unfinished, look.findings) == (MANY, 0, [])
            asked = api.RetrieveRequest(scope=scopes.SHOP, query="limit_77", max_results=1)
            [found] = (await kb_client.retrieve(asked)).items
            assert found.provenance.source_urn == f"git::acme/shop@{77:040x}"
            before, now = (api.Observation(observer="repository", number=number) for number in (1, 2))
            await kb_client.observe(scopes.SHOP, now)
            removal = commits.sent(removed=[f"{77:040x}"])
            for late in (
                kb_client.git_commits(removal, on=before),
                kb_client.forget(scopes.SHOP, f"git::acme/shop@{77:040x}", before),
            ):
                with pytest.raises(client.Rejected) as caught:
                    await late
                assert (caught.value.status, caught.value.code, caught.value.field) == (409, "conflict", "observation")
            assert commits.results(await kb_client.git_commits(removal, on=now)) == ["Forgotten"]
            erasure = await kb_client.erasing.ask(scopes.SHOP, "jana")

            async def done() -> bool:
                [one] = await kb_client.erasing.listed(scopes.SHOP)
                return one.id == erasure.id and one.state == "Done"

            await waiting.eventually(done)
            look = await kb_client.looking.consistency(scopes.SHOP)
            assert (look.documents, look.chunks, look.findings) == (0, 0, [])
