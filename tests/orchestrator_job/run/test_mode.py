"""A Background run says so: the router must not take its requests for those of a person."""

from __future__ import annotations

import json

import httpx
import pytest

from crds.priority import Priority
from router import client
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk


@pytest.mark.parametrize("mode", [None, "Background"])
async def test_the_mode_goes_with_every_inference_call(mode: str | None) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("X-Jervis-Mode"))
        reply = (
            {"embeddings": [[0.5]]} if request.url.path == "/api/embed" else {"message": {"content": ""}, "done": True}
        )
        return httpx.Response(200, text=json.dumps(reply) + "\n")

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        router = client.Client("http://router", http, mode=mode)
        await router.chat("m", [], Priority.P0)
        await router.embed("m", ["t"], Priority.P0)
    assert seen == [mode, mode]


@pytest.mark.services
@pytest.mark.parametrize(("mode", "priority"), [("Background", "1"), ("Foreground", "0")])
async def test_evidence_for_a_background_run_is_no_users_request(desk: Desk, mode: str, priority: str) -> None:
    desk.task.environment["JERVIS_MODE"] = mode
    assert (await desk.run([job.reply()])).status == 0
    [request] = desk.fake.requests(path="/api/chat")
    assert (request["priority"], desk.known.priorities) == ("0", [priority])
