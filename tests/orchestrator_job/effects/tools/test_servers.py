"""Tools of other servers: the knowledge base's own /mcp as such a server, and servers that break the rules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from aiohttp import web

from clients import toolservers
from crds import scope
from crds import tools as run_tools
from orchestrator_job.effects.tools import mcp, port
from tests import httpserver
from tests.orchestrator_job.effects.tools import parts

QUERY = "clientId=acme&projectId=apollo"


def server(url: str, **more: Any) -> dict[str, Any]:
    return {"name": "wiki", "url": url, "clients": ["acme"], "tools": ["*"], "seconds": 20, **more}


@pytest.mark.services
async def test_listed_tools_are_offered_by_their_servers_schema_and_called(made: parts.Parts) -> None:
    url = f"{made.kb_url}/mcp?{QUERY}"
    tools, _ = await made.box(mcp_servers=[server(url)])
    assert {"wiki.ask", "wiki.store"} <= set(tools.tools)
    store = parts.acting(tools, "wiki.store")
    assert not isinstance(store, port.Reading)
    offered = port.offered(store)["function"]
    assert {"subject", "content"} <= set(offered["parameters"]["properties"])
    given = port.parse(store, {"subject": "BMS", "content": "A system.", "category": "domain"})
    assert store.tier is port.Tier.ASK
    assert dict(store.aims(given)) == {"subject": "BMS", "content": "A system.", "category": "domain"}
    assert '"content": "A system."' in store.shown(given)
    effect = store.effect(given, parts.place())
    assert (effect.repeatable, await effect.find("k")) == (False, None)
    receipt = await effect.perform("k")
    assert not receipt["failed"], receipt
    wrong = store.effect(port.parse(store, {"subject": 1}), parts.place())
    assert (await wrong.perform("k2"))["failed"]
    tools, _ = await made.box(mcp_servers=[server(url, modes={"*": "read"}, tools=["as*"])])
    assert [name for name in tools.tools if name.startswith("wiki.")] == ["wiki.ask"]
    asked = await parts.called(tools, "wiki.ask", query="What is BMS?")
    assert (asked.failed, asked.sources) == (False, ("mcp::wiki.ask",)), asked.text


async def test_no_other_client_and_no_server_that_is_away() -> None:
    here = scope.Scope(client_id="acme")
    away = run_tools.Server.model_validate(server("http://127.0.0.1:9/mcp"))
    tools, found = await mcp.listed([away], here)
    assert (tools, list(found.away)) == ([], ["wiki"])
    assert found.away["wiki"].startswith("The server wiki does not answer")
    for clients in (["other"], ["acme-2"], []):
        closed = run_tools.Server.model_validate(server("http://127.0.0.1:9/mcp", clients=clients))
        assert await mcp.listed([closed], here) == ([], toolservers.Catalogue())


@pytest.mark.parametrize("status", [200, 302, 401, 500])
async def test_a_server_that_breaks_the_rules_is_away(status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text="<html>", headers={"Location": "http://127.0.0.1:9/"})

    application = web.Application()
    application.router.add_route("*", "/mcp", answer)
    async with httpserver.serving(application) as base:
        broken = run_tools.Server.model_validate(server(f"{base}/mcp", seconds=2))
        tools, found = await mcp.listed([broken], scope.Scope(client_id="acme"))
    assert (tools, list(found.away)) == ([], ["wiki"])


@pytest.mark.parametrize(
    "wrong",
    [{"url": "stdio:ls"}, {"url": "http://user:word@h/mcp"}, {"name": "A.b"}, {"command": "x"}, {"clients": "acme"}],
)
def test_what_is_no_server_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        run_tools.Server.model_validate({**server("http://h/mcp"), **wrong})


def test_what_few_runs_need_is_not_imported_with_the_box() -> None:
    program = "import sys, orchestrator_job.effects.tools.toolbox; print(*sys.modules, sep='\\n')"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = {name.partition(".")[0] for name in output.split()}
    assert not loaded & {"icalendar", "mcp", "httpx2", "packaging", "detect_secrets", "langgraph"}
