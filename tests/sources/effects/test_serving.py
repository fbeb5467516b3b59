"""The routes of effects: their description, and which tokens they take."""

from __future__ import annotations

from datetime import UTC, datetime

import prometheus_client
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from sources import client, metrics
from sources.api import app, routes
from sources.effects import listing, serving, tools
from tests.sources.api import serving as api
from tests.sources.effects.rig import Rig, running

pytestmark = pytest.mark.services
LISTED = [*serving.PERFORM.values(), serving.OTHER, serving.OUTCOME, listing.ROUTE]


def test_the_description_has_the_arguments_of_each_tool() -> None:
    document = routes.document(LISTED)
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    shapes = document["components"]["schemas"]
    for name in tools.TOOLS:
        body = document["paths"][f"/api/v1/effects/{name}"]["post"]["requestBody"]["content"]["application/json"]
        asked = shapes[body["schema"]["$ref"].rpartition("/")[2]]
        assert asked["properties"]["arguments"]["$ref"].endswith(f"/{name[0].upper()}{name[1:]}")
    assert {"inReplyTo", "contentRef"} <= {key for one in shapes.values() for key in one.get("properties", ())}
    assert set(document["paths"]["/api/v1/effects/{key}"]) == {"get", "post"}


def served(rig: Rig, lines: list[str]) -> list[routes.Served]:
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    wall = lambda: datetime(2026, 11, 26, 12, tzinfo=UTC)  # noqa: E731
    return serving.Effects(rig.does, rig.entries, measured, write=lines.append, wall=wall).served()


async def test_a_key_may_be_named_like_a_tool_and_another_task_does_not_see_it() -> None:
    async with running() as rig:
        rig.world.connect()
        issues = "/api/v1/repos/o/r/issues"
        rig.world.rows |= {issues: [{"number": 1, "updated_at": "2026-11-26T11:00:00Z"}], f"{issues}/1/comments": []}
        lines: list[str] = []
        body = {"connection": "tracker", "key": "sendMail", "arguments": {"issue": "1", "text": "T"}}
        async with api.serving(served(rig, lines), token=api.run_token(uid=rig.uid)) as run:
            made = await run.post("/api/v1/effects/addComment", json=body)
            assert (made.status_code, made.json()["state"]) == (200, "Done")
            assert (await run.get("/api/v1/effects/sendMail")).json() == made.json()
            assert (await run.get("/api/v1/effects/absent")).json()["error"]["field"] == "key"
            unknown = await run.post("/api/v1/effects/format", json=body)
            assert (unknown.status_code, unknown.json()["error"]["field"]) == (404, "tool")
            document = (await run.get(app.DESCRIPTION)).json()
            assert "/api/v1/effects/addComment" in document["paths"]
        async with api.serving(served(rig, lines), token=api.run_token(uid="another")) as other:
            assert (await other.get("/api/v1/effects/sendMail")).status_code == 404
        async with api.serving(served(rig, lines)) as anonymous:
            assert (await anonymous.post("/api/v1/effects/addComment", json=body)).status_code == 401
        assert len(lines) == 2
        assert len(rig.world.rows[f"{issues}/1/comments"]) == 1


async def test_a_run_has_the_names_of_its_own_client_s_connections() -> None:
    smtp = {"url": "smtp://mail.example.com", "from": "bot@example.com"}
    async with running() as rig:
        rig.world.connect("acme-issues")
        own = ["example.com", "*.example.com"]
        rig.world.connect("acme-mail", type="Email", url="imap://mail.example.com", smtp=smtp, internalDomains=own)
        rig.world.connect("acme-inbox", type="Email", url="imap://mail.example.com")
        rig.world.connect("acme-code", type="Git", url="https://git.example.com/o/r.git")
        rig.world.connect("other-project", projectId="other")
        rig.world.connect("globex-issues", clientId="globex")
        rig.world.connections["broken"] = {"metadata": {"name": "broken"}, "spec": {"type": "Gitea"}}
        listed = listing.Listing(rig.finds).served
        async with api.serving(listed, token=api.run_token(uid=rig.uid)) as run:
            sources = client.Client(str(run.base_url), run, lambda: api.run_token(uid=rig.uid))
            connections = await sources.connections()
            found = {one.name: one.uses for one in connections}
        assert found == {
            "acme-code": ("pushBranch", "readRepository"),
            "acme-inbox": (),
            "acme-issues": ("addComment", "createIssue", "updateIssue", "readChecks"),
            "acme-mail": ("sendMail",),
        }
        # Of a mailbox the host may be a provider of all the world.
        inside = {one.name: (one.host, one.internal_domains) for one in connections}
        assert inside["acme-mail"] == ("", ("example.com", "*.example.com"))
        assert inside["acme-code"] == ("git.example.com", ())
        async with api.serving(listed, token=api.run_token(uid=rig.uid, namespace="team-b")) as run:
            assert (await run.get("/api/v1/connections")).json() == {"connections": []}
