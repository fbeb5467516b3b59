"""Reading that takes something outside: a host that the arguments name, or a copy to a server that is not inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crds import domains, scope
from crds import tools as run_tools
from orchestrator_job.agents import loop
from orchestrator_job.effects.tools import mcp
from orchestrator_job.store import delegation_models
from tests.fakes import tool_server
from tests.orchestrator_job import workbench
from tests.orchestrator_job.workbench import Benches, calls, message, report

pytestmark = pytest.mark.services
SECRET = "The vault of the archive opens with the code 7713."
NOTHING = domains.NOTHING


@pytest.mark.parametrize(
    ("arguments", "entry", "internal", "targets"),
    [
        ({"city": "Brno"}, {}, NOTHING, None),
        ({"note": "Code 7713"}, {}, NOTHING, ()),
        ({"note": "Code ٧٧١٣"}, {}, NOTHING, ()),
        ({"note": {"7 713": True}}, {}, NOTHING, ()),
        ({"note": "Code 7713"}, {"hosts": ["127.0.0.1"]}, NOTHING, None),
        ({"note": "Code 7713"}, {}, domains.Internal(hosts=frozenset({"127.0.0.1"})), None),
        ({"url": "https://evil.example/look"}, {"hosts": ["127.0.0.1"]}, NOTHING, ("evil.example",)),
        ({"url": "www.evil.example"}, {"hosts": ["127.0.0.1"]}, NOTHING, ("www.evil.example",)),
        ({"deep": [{"at": "7713.evil.example"}]}, {"hosts": ["127.0.0.1"]}, NOTHING, ("7713.evil.example",)),
        ({"url": "https://docs.example.com/x"}, {"hosts": ["*.example.com", "127.0.0.1"]}, NOTHING, None),
        ({"url": "https://docs.example.com/x"}, {}, domains.Internal(("docs.example.com",)), None),
        ({"url": "https://docs.example.com/7713"}, {"hosts": ["*"]}, NOTHING, None),
        ({"path": "src/main.py"}, {}, NOTHING, None),
    ],
)
async def test_a_reading_call_that_takes_something_outside_waits_for_a_person(
    benches: Benches,
    arguments: dict[str, Any],
    entry: dict[str, Any],
    internal: domains.Internal,
    targets: tuple[str, ...] | None,
) -> None:
    """`targets` None: it is made at once."""
    script = [calls(("web.say", arguments)), report("Done."), report("Done.")]
    benches.fake.set_script({"job.agent.Research/v1": script})
    async with tool_server.running() as server:
        bench = await opened(benches, server, internal, modes={"*": "read"}, **entry)
        done = await bench.work(message(), retrieved=(SECRET,))
        assert len(server.calls) == (1 if targets is None else 0)
        if targets is None:
            assert isinstance(done, delegation_models.AgentOutput)
        else:
            assert isinstance(done, loop.Waiting)
            [request] = done.requests
            assert (request.permitted_as, request.targets) == ("mcp:web.say", targets)


async def test_a_permit_names_the_host_that_a_reading_call_may_name(benches: Benches) -> None:
    benches.fake.set_script(
        {"job.agent.Research/v1": [calls(("web.say", {"url": "https://evil.example/"})), report("Done.")]}
    )
    permit = {"tool": "mcp:web.say", "targets": ["evil.example"]}
    async with tool_server.running() as server:
        bench = await opened(benches, server, NOTHING, permits=[permit], modes={"*": "read"}, hosts=["127.0.0.1"])
        assert isinstance(await bench.work(message()), delegation_models.AgentOutput)
        assert len(server.calls) == 1


@pytest.mark.parametrize(("modes", "done"), [({}, False), ({"*": "ask"}, False), ({"say": "permit"}, True)])
async def test_a_permit_counts_for_tools_of_the_mode_permit_alone(
    benches: Benches, modes: dict[str, str], done: bool
) -> None:
    benches.fake.set_script({"job.agent.Research/v1": [calls(("web.say", {"city": "Brno"})), report("Done.")]})
    async with tool_server.running() as server:
        bench = await opened(benches, server, NOTHING, permits=[{"tool": "mcp:web.say"}], modes=modes)
        ended = await bench.work(message())
        assert isinstance(ended, delegation_models.AgentOutput) is done
        assert len(server.calls) == done


async def opened(
    benches: Benches, server: tool_server.ToolServer, internal: domains.Internal, *, permits: Any = (), **entry: Any
) -> workbench.Bench:
    """The next process, with the tools of the server."""
    given = {"name": "web", "url": server.url, "clients": ["acme"], "tools": ["*"], **entry}
    tools, _ = await mcp.listed([run_tools.Server.model_validate(given)], scope.Scope(client_id="acme"))
    bench = benches.next(*tools, permits=permits)
    bench.means = replace(bench.means, internal=internal)
    return bench
