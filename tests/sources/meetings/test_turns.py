"""Recordings of several namespaces are transcribed in turns, however many one of them has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from controllers import metrics
from controllers.meetings import job, reconcile
from controllers.pendingtask import job as runs
from kube import lease
from sources.core import assignments
from tests.kube import apiserver
from tests.sources.meetings.test_flow import HEARD, uploaded
from tests.sources.meetings.test_upload import Rig, connection

pytestmark = pytest.mark.services


async def answer(request: web.Request) -> web.Response:
    """An apiserver that takes Jobs and Secrets, and has none yet."""
    if request.method == "GET":
        return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
    body = await request.json()
    return web.json_response({**body, "metadata": {**body["metadata"], "uid": "u"}}, status=201)


@pytest.mark.parametrize("at_once", [1, 2])
async def test_one_recording_does_not_wait_for_all_of_another_namespace(rig: Rig, at_once: int) -> None:
    await rig.database[assignments.CONNECTIONS].insert_one({**connection("quiet"), "namespace": "quiet"})
    for _ in range(4):
        await uploaded(rig)
        rig.now += timedelta(seconds=1)
    await uploaded(rig, namespace="quiet", connection="quiet")
    template = job.Template(
        runs.Template("jervis", "i", "Never", "a", "http://kb", "http://r", "mongodb://m", "model"),
        "http://s", "i", "scripted", "small", deadline_seconds=60, ttl_seconds=600, scratch="1Gi",
    )  # fmt: skip
    order: list[str] = []
    async with apiserver.serving(answer, "*") as api:
        works = reconcile.Transcriptions(
            api, rig.meetings, template, at_once=at_once, token=lease.FencingToken, fence=lambda: None,
            measured=metrics.Metrics(CollectorRegistry()), wall=lambda: rig.now,
        )  # fmt: skip
        for _ in range(5):
            await works.reconcile_once()
            going = await rig.meetings.transcribing()
            order += [row["namespace"] for row in going]
            for row in going:
                await rig.meetings.transcribed(row, HEARD, False)
    assert len(order) == 5
    assert order.index("quiet") < 2
