"""Servers of tools that others wrote: what each of them lists and answers, as runs and the decision agent read it.

`make test-tool-servers` fetches them once and names their folder in JERVIS_TEST_TOOL_SERVERS.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clients import toolservers
from crds import tools
from tests import ports, waiting

PLACE = Path(os.environ.get("JERVIS_TEST_TOOL_SERVERS", ""))
pytestmark = pytest.mark.skipif(
    not os.environ.get("JERVIS_TEST_TOOL_SERVERS"),
    reason="JERVIS_TEST_TOOL_SERVERS names no folder: see make test-tool-servers",
)
PYTHON = str(PLACE / "servers" / "bin" / "python")
FASTMCP = """
import sys
import fastmcp, fastmcp.exceptions
from fastmcp.utilities.types import Image

server = fastmcp.FastMCP("paged", list_page_size=10)
for number in range(60):
    server.tool(lambda: "said", name=f"tool_{number:02}")

@server.tool
def rows(city: str) -> dict[str, int]:
    return {city: 2}

@server.tool
def fails() -> str:
    raise fastmcp.exceptions.ToolError("The volume is full.")

@server.tool
def picture() -> list:
    return ["Here it is.", Image(data=b"x" * 1_200_000, format="png")]

@server.tool(name="email.send_email")
def send(to: str) -> str:
    return f"sent to {to}"

@server.tool
def nothing() -> None:
    return None

server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False)
"""


def module(*parts: str) -> str:
    return str(PLACE.joinpath("node_modules", *parts))


@contextlib.contextmanager
def running(
    folder: Path, *command: str, port: int = 0, environment: Mapping[str, str] | None = None
) -> Iterator[tools.Server]:
    """The entry of a server that is started by `command`; one of standard input and output, without `port`, behind a
    bridge."""
    if not port:
        port = ports.free()
        bridge = ("--outputTransport", "streamableHttp", "--port", str(port), "--logLevel", "none")
        command = ("node", module("supergateway", "dist", "index.js"), "--stdio", " ".join(command), *bridge)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        waiting.served(listens, process, folder / "log")
        entry = {"name": "other", "url": f"http://127.0.0.1:{port}/mcp", "clients": ["*"], "tools": ["*"]}
        yield tools.Server.model_validate({**entry, "seconds": 300})
    finally:
        # With what a bridge has started.
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


async def offered(server: tools.Server) -> dict[str, toolservers.Offered]:
    catalogue = await toolservers.listed([server], "acme", seconds=300)
    assert not catalogue.away
    return {tool.name: tool for tool in catalogue.tools}


async def called(tool: toolservers.Offered, **arguments: Any) -> str:
    answer = await toolservers.call(tool, arguments)
    assert not answer.failed, answer
    return answer.text


async def refused(tool: toolservers.Offered, **arguments: Any) -> str:
    answer = await toolservers.call(tool, arguments)
    assert answer.failed, answer
    return answer.text


async def test_everything(tmp_path: Path) -> None:
    port = ports.free()
    program = module("@modelcontextprotocol", "server-everything", "dist", "index.js")
    command = ("node", program, "streamableHttp")
    with running(tmp_path, *command, port=port, environment={"PORT": str(port)}) as server:
        found = await offered(server)
        assert await called(found["echo"], message="gr\u00fc\u00dfe") == "Echo: gr\u00fc\u00dfe"
        assert "5" in await called(found["get-sum"], a=2, b=3)
        picture = await called(found["get-tiny-image"])
        assert "[image: image/png, left out]" in picture
        structured = await called(found["get-structured-content"], location="New York")
        assert json.loads(structured.splitlines()[-1]).keys() >= {"temperature"}
        links = await called(found["get-resource-links"], count=2)
        assert links.count("[link: ") == 2
        resource = await called(found["get-resource-reference"], resourceType="Text", resourceId=1)
        assert "demo://resource" in resource
        assert len(resource.splitlines()) > 2
        slow = await called(found["trigger-long-running-operation"], duration=1, steps=3)
        assert "completed" in slow
        assert await refused(found["get-sum"], a="much")


async def test_files(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "plan.txt").write_text("The plan.")
    program = module("@modelcontextprotocol", "server-filesystem", "dist", "index.js")
    with running(tmp_path, "node", program, str(shared)) as server:
        found = await offered(server)
        assert await called(found["read_text_file"], path=str(shared / "plan.txt")) == "The plan."
        await called(found["write_file"], path=str(shared / "new.txt"), content="x" * 50_000)
        assert (await called(found["read_text_file"], path=str(shared / "new.txt"))) == "x" * 50_000
        assert "denied" in await refused(found["read_text_file"], path="/etc/passwd")


async def test_memory(tmp_path: Path) -> None:
    program = module("@modelcontextprotocol", "server-memory", "dist", "index.js")
    kept = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    with running(tmp_path, "node", program, environment=kept) as server:
        found = await offered(server)
        entity = {"name": "BMS", "entityType": "system", "observations": ["It is old."]}
        await called(found["create_entities"], entities=[entity])
        assert "It is old." in await called(found["search_nodes"], query="BMS")
        assert await refused(found["create_entities"], entities="none")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty one of Git."""
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    return tmp_path / "repository"


async def test_git(tmp_path: Path, repository: Path) -> None:
    (repository / "a.txt").write_text("a")
    with running(tmp_path, PYTHON, "-m", "mcp_server_git", "--repository", str(repository)) as server:
        found = await offered(server)
        assert "a.txt" in await called(found["git_status"], repo_path=str(repository))
        await called(found["git_add"], repo_path=str(repository), files=["a.txt"])
        assert await refused(found["git_checkout"], repo_path=str(repository), branch_name="none")


async def test_time(tmp_path: Path) -> None:
    with running(tmp_path, PYTHON, "-m", "mcp_server_time") as server:
        found = await offered(server)
        asked = {"source_timezone": "Europe/Prague", "time": "12:00", "target_timezone": "UTC"}
        assert "time_difference" in await called(found["convert_time"], **asked)
        assert "Atlantis" in await refused(found["get_current_time"], timezone="Europe/Atlantis")


async def test_fastmcp(tmp_path: Path) -> None:
    port = ports.free()
    with running(tmp_path, PYTHON, "-c", FASTMCP, str(port), port=port) as server:
        chosen = server.model_copy(
            update={"tools": ("tool_05", "tool_55", "rows", "fails", "picture", "email*", "noth*")}
        )
        found = await offered(chosen)
        assert found.keys() == {"tool_05", "tool_55", "rows", "fails", "picture", "email.send_email", "nothing"}
        assert found["email.send_email"].called == "other.email_send_email"
        assert await called(found["email.send_email"], to="ann") == "sent to ann"
        assert await called(found["tool_55"]) == "said"
        assert json.loads(await called(found["rows"], city="Brno")) == {"Brno": 2}
        assert await refused(found["fails"]) == "The volume is full."
        assert await called(found["picture"]) == "Here it is.\n[image: image/png, left out]"
        assert await called(found["nothing"]) == ""
        assert "city" in await refused(found["rows"])
        every = await toolservers.listed([server], "acme", seconds=300)
        assert (len(every.tools), len(every.left_out)) == (50, 15)


async def test_a_server_that_ends_between_two_calls_is_asked_again(tmp_path: Path) -> None:
    port = ports.free()
    command = (PYTHON, "-c", FASTMCP, str(port))
    with running(tmp_path, *command, port=port) as server:
        tool = (await offered(server.model_copy(update={"tools": ("rows",)})))["rows"]
    with pytest.raises(toolservers.NotSent):
        await toolservers.call(tool, {"city": "Brno"})
    with running(tmp_path, *command, port=port):
        assert json.loads(await called(tool, city="Brno")) == {"Brno": 2}
