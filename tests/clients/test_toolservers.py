"""Tools of servers that others wrote: what a server states, what is silence, and what its answers may cost."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from clients import json_bounds, toolservers
from crds import tools
from tests import ports
from tests.fakes import tool_server
from tests.fakes.tool_server import ToolServer, text, tool

MOST_MEMORY = 16 << 20


@pytest.fixture
async def server() -> AsyncIterator[ToolServer]:
    async with tool_server.running() as made:
        yield made


def entry(url: str, **more: Any) -> tools.Server:
    return tools.Server.model_validate({"name": "w", "url": url, "clients": ["*"], "tools": ["*"], **more})


def say(server: ToolServer, **more: Any) -> toolservers.Offered:
    return toolservers.Offered(entry(server.url, **more), "say", "Says.", {"type": "object"})


async def called(server: ToolServer, **arguments: Any) -> toolservers.Answer:
    return await toolservers.call(say(server), arguments)


def status(number: int, body: str = "", **headers: str) -> tool_server.Respond:
    async def respond(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=number, text=body, headers=named)

    return respond


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("code", [-32602, -32603, -32000, -32001, -32700, 7])
async def test_an_error_that_the_server_states_is_the_answer(server: ToolServer, code: int, events: bool) -> None:
    server.answer, server.events = {"code": code, "message": "q must not be empty", "data": {"q": "?"}}, events
    answer = await called(server)
    assert answer == toolservers.Answer('The server w refuses it: q must not be empty: {"q": "?"}', True)
    assert len(server.calls) == 1


async def test_an_error_of_the_protocol_behind_a_status_is_the_answer(server: ToolServer) -> None:
    async def respond(_: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no such tool"}}
        return web.json_response(error, status=400)

    server.before["tools/call"] = respond
    assert await called(server) == toolservers.Answer("The server w refuses it: no such tool", True)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (401, "answers 401 Unauthorized. It asks for a login"),
        (403, "answers 403 Forbidden"),
        (404, "answers 404 Not Found. Nothing is served at that URL."),
        (405, "answers 405 Method Not Allowed"),
        (413, "answers 413"),
        (421, "answers 421 Misdirected Request. It does not serve the host name"),
        (422, "answers 422"),
    ],
)
@pytest.mark.parametrize("method", ["initialize", "tools/call"])
async def test_a_status_that_refuses_settles_the_call(
    server: ToolServer, number: int, expected: str, method: str
) -> None:
    server.before[method] = status(number, "because of the moon")
    answer = await called(server)
    assert answer.failed
    assert expected in answer.text
    assert answer.text.endswith("because of the moon")
    assert len(server.calls) == (method == "tools/call")


async def test_a_server_that_asks_to_wait_has_done_nothing(server: ToolServer) -> None:
    server.before["tools/call"] = status(429, Retry_After="7")
    with pytest.raises(toolservers.NotSent, match=r"429 Too Many Requests\. It asks to wait 7 seconds") as caught:
        await called(server)
    assert caught.value.retry_after == 7
    server.before["tools/call"] = status(429, Retry_After="Mon, 30 Nov 2020 10:00:00 GMT")
    with pytest.raises(toolservers.NotSent) as caught:
        await called(server)
    assert caught.value.retry_after == 0


async def test_a_session_that_is_over_is_begun_anew(server: ToolServer) -> None:
    server.session, server.before["tools/call"] = "s1", status(404)
    with pytest.raises(toolservers.NotSent, match="has ended the session"):
        await called(server)


@pytest.mark.parametrize("number", [408, 500, 502, 503, 504])
async def test_a_broken_server_may_have_done_it(server: ToolServer, number: int) -> None:
    server.before["tools/call"] = status(number)
    with pytest.raises(toolservers.Away, match=f"answers {number} ") as caught:
        await called(server)
    assert not isinstance(caught.value, toolservers.NotSent)
    server.before = {"initialize": status(number)}
    with pytest.raises(toolservers.NotSent, match=f"answers {number} "):
        await called(server)


async def test_only_a_call_that_was_sent_may_have_happened(server: ToolServer) -> None:
    async def hangs_up(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    server.before["tools/call"] = hangs_up
    with pytest.raises(toolservers.Away) as caught:
        await called(server)
    assert not isinstance(caught.value, toolservers.NotSent)
    server.before = {"tools/call": status(202)}
    with pytest.raises(toolservers.Away, match="gives no answer") as caught:
        await called(server)
    assert not isinstance(caught.value, toolservers.NotSent)
    server.before = {"notifications/initialized": hangs_up, "initialize": hangs_up}
    with pytest.raises(toolservers.NotSent):
        await called(server)
    nowhere = toolservers.Offered(entry(f"http://127.0.0.1:{ports.free()}/mcp"), "say", "", {})
    with pytest.raises(toolservers.NotSent, match="does not answer"):
        await toolservers.call(nowhere, {})


async def test_a_call_that_takes_too_long_may_have_happened(server: ToolServer) -> None:
    server.held.clear()
    with pytest.raises(toolservers.Away, match=r"no answer within 0\.5 seconds") as caught:
        await toolservers.call(say(server, seconds=0.5), {})
    assert (isinstance(caught.value, toolservers.NotSent), len(server.calls)) == (False, 1)


@pytest.mark.parametrize(
    ("body", "kind"), [("<html>", "text/html"), ("{", "application/json"), ("7", "application/json"), ("", "")]
)
async def test_an_answer_that_cannot_be_read_is_an_answer(server: ToolServer, body: str, kind: str) -> None:
    server.before["tools/call"] = status(200, body, **({"Content_Type": kind} if kind else {}))
    answer = await called(server)
    assert answer.failed
    assert "has answered, and its answer cannot be read" in answer.text
    assert answer.text.endswith("Whether it was done has to be looked up there.")


async def test_redirects_are_followed_to_the_same_server_alone(server: ToolServer) -> None:
    async def moved(request: web.Request, _: dict[str, Any]) -> web.StreamResponse | None:
        return None if request.path.endswith("/") else web.Response(status=307, headers={"Location": "/mcp/"})

    server.before = {"initialize": moved, "tools/call": moved}
    assert await called(server) == toolservers.Answer("said", False)
    assert len(server.calls) == 2, "one was turned away"
    for number, target in ((302, "/mcp/"), (307, "http://127.0.0.1:9/mcp"), (308, "https://127.0.0.1/mcp")):
        server.before = {"tools/call": status(number, Location=target)}
        answer = await called(server)
        assert answer.failed
        assert "which is not called" in answer.text
    server.before = {"tools/call": status(307, Location="/mcp")}
    assert "leads from one URL to the next" in (await called(server)).text


async def test_what_has_arrived_is_not_lost_to_what_comes_after(server: ToolServer) -> None:
    server.session = "s1"
    server.before = {"DELETE": status(500), "tools/list": status(429)}
    server.answer = text("said", structuredContent={"a": 1})
    assert await called(server) == toolservers.Answer('said\n{"a": 1}', False)
    assert server.asked[-2:] == ["tools/call", "DELETE"], "nothing is listed after a call"


async def test_a_stream_that_ends_goes_on_from_its_last_event(server: ToolServer) -> None:
    async def begins(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(text="retry: 1\nid: e1\ndata:\n\n", content_type="text/event-stream")

    async def goes_on(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        assert request.headers["Last-Event-ID"] == "e1"
        answer = json.dumps({"jsonrpc": "2.0", "id": 99, "result": text("said at last")})
        return web.Response(text=f"id: e2\r\ndata: {answer}\r\n\r\n", content_type="text/event-stream")

    server.before = {"tools/call": begins, "GET": goes_on}
    assert await called(server) == toolservers.Answer("said at last", False)
    server.before = {"tools/call": begins, "GET": status(404)}
    with pytest.raises(toolservers.Away, match="ends before its end"):
        await called(server)


async def test_requests_and_nonsense_of_a_server_in_between_are_no_answer(server: ToolServer) -> None:
    between: list[Any] = [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": "much"}},
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "method": "unheard", "params": []},
        {"jsonrpc": "2.0", "id": 5, "method": "ping"},
        {"jsonrpc": "2.0", "id": "x", "method": "sampling/createMessage", "params": {}},
        "nonsense",
    ]

    async def respond(_: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": text("said")}
        lines = [': comment with " in it\n\n', "data: {\n\n", *(f"data: {json.dumps(one)}\n\n" for one in between)]
        # The last event lacks its blank line, and is more than one line of data.
        lines.append("".join(f"data: {line}\n" for line in json.dumps(answer, indent=1).splitlines()))
        return web.Response(text="".join(lines), content_type="text/event-stream")

    server.before["tools/call"] = respond
    assert await called(server) == toolservers.Answer("said", False)
    assert "method" not in server.asked


async def test_all_that_is_text_in_a_result_arrives(server: ToolServer) -> None:
    server.answer = {
        "content": [
            {"type": "text", "text": "Found 2 rows."},
            {"type": "resource", "resource": {"uri": "file:///x.txt", "mimeType": "text/plain", "text": "text 4711"}},
            {"type": "resource", "resource": {"uri": "file:///x.zip", "mimeType": "application/zip", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "https://h/doc", "name": "doc", "description": "The plan"},
            {"type": "image", "data": "A" * 3_000_000, "mimeType": "image/png"},
            {"type": "audio", "data": "A" * 3_000_000, "mimeType": "audio/wav"},
            {"type": "hologram", "beam": 1},
            "nonsense",
        ],
        "structuredContent": {"rows": [1, 2]},
        "_meta": {"anything": None},
    }
    answer = await called(server)
    assert answer.text.splitlines() == [
        "Found 2 rows.",
        "[file:///x.txt]",
        "text 4711",
        "[file:///x.zip: application/zip, no text, left out]",
        "[link: doc | https://h/doc | The plan]",
        "[image: image/png, left out]",
        "[audio: audio/wav, left out]",
        "[a part of type hologram is left out]",
        "[a part that is not of the protocol is left out]",
        '{"rows": [1, 2]}',
    ]
    assert not answer.failed


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        ('{"a": 1}', {"a": 1}),
        ("7", {"result": 7}),
        ("seven", {"content": "seven"}),
        ('{\n "result": 7}', {"result": 7}),
    ],
)
async def test_what_the_text_says_already_is_not_said_again(server: ToolServer, content: str, structured: Any) -> None:
    server.answer = text(content, structuredContent=structured)
    assert (await called(server)).text == content


@pytest.mark.parametrize("result", [{"content": []}, {"content": [], "isError": False}, text("")])
async def test_an_empty_result_is_a_success(server: ToolServer, result: Any) -> None:
    server.answer = result
    assert await called(server) == toolservers.Answer("", False)


async def test_a_half_of_a_character_costs_that_character(server: ToolServer) -> None:
    server.answer = text("made \ud83d", structuredContent={"\udc00": "\ud83d\ude00"})
    answer = await called(server)
    assert answer.text == 'made ?\n{"?": "\U0001f600"}'
    answer.text.encode()


async def test_an_output_schema_is_not_checked(server: ToolServer) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["b"]}
    server.pages = [[tool("say", outputSchema=schema)]]
    server.answer = text("said", structuredContent={"a": "a" * 40 + "!"})
    [offered] = (await toolservers.offered(entry(server.url))).tools
    assert (await toolservers.call(offered, {})).text.startswith("said")


async def test_all_pages_are_read_and_the_entry_chooses_before_the_cut(server: ToolServer) -> None:
    server.pages = [[tool(f"t{page * 10 + at:03}") for at in range(10)] for page in range(7)]
    chosen = await toolservers.offered(entry(server.url, tools=["t005", "t055"]))
    assert ([one.name for one in chosen.tools], chosen.left_out) == (["t005", "t055"], {})
    every = await toolservers.offered(entry(server.url))
    assert [one.name for one in every.tools] == [f"t{at:03}" for at in range(50)]
    assert list(every.left_out) == [f"w.t{at:03}" for at in range(50, 70)]
    assert "allows more than 50 tools" in every.left_out["w.t050"]


async def test_a_list_without_an_end_ends(server: ToolServer) -> None:
    async def again(_: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return server.respond(message, {"tools": [tool("say")], "nextCursor": "same"})

    server.before["tools/list"] = again
    catalogue = await toolservers.offered(entry(server.url))
    assert [one.name for one in catalogue.tools] == ["say"]
    assert "the same page again" in catalogue.left_out["w.*"]
    assert server.asked.count("tools/list") == 2


async def test_a_tool_that_is_left_out_costs_that_tool_and_is_named(server: ToolServer) -> None:
    server.pages = [
        [
            tool("good"),
            {"name": "bare"},
            tool("task", execution={"taskSupport": "required"}),
            tool("maybe", execution={"taskSupport": "optional"}),
            tool("wide", {f"p{at}": {"type": "string", "description": "x" * 100} for at in range(200)}),
            tool("good"),
            tool("hidden"),
            {"name": 7, "inputSchema": {}},
            "nonsense",
            {**tool("plain"), "description": None, "annotations": [], "outputSchema": "?"},
        ]
    ]
    catalogue = await toolservers.offered(entry(server.url, tools=["good", "bare", "task", "maybe", "wide", "plain"]))
    assert [one.name for one in catalogue.tools] == ["good", "maybe", "plain"]
    assert catalogue.left_out.keys() == {"w.bare", "w.task", "w.wide", "w.good", "w.?"}
    assert "inputSchema" in catalogue.left_out["w.bare"]
    assert "task" in catalogue.left_out["w.task"]
    assert "characters" in catalogue.left_out["w.wide"]


async def test_a_name_that_models_cannot_write_has_one_that_they_can(server: ToolServer) -> None:
    names = [
        "calendar.create",
        "calendar_create",
        "user/profile",
        "a" * 65,
        "gr\u00f6\u00dfe",
        "\u691c\u7d22",
        "OK-1",
    ]
    server.pages = [[tool(name) for name in names]]
    catalogue = await toolservers.offered(entry(server.url))
    assert [one.name for one in catalogue.tools] == names
    aliases = [one.called.removeprefix("w.") for one in catalogue.tools]
    assert (aliases[1], aliases[2], aliases[6]) == ("calendar_create", "user_profile", "OK-1")
    assert all(alias.isascii() and len(alias) <= 64 and "." not in alias for alias in aliases)
    assert len(set(aliases)) == len(names)
    for offered in catalogue.tools:
        await toolservers.call(offered, {})
    assert [params["name"] for params in server.calls] == names


async def test_servers_are_listed_side_by_side_and_one_that_hangs_is_away(server: ToolServer) -> None:
    async def hangs(_: web.Request, __: dict[str, Any]) -> None:
        await server.held.wait()

    async with tool_server.running() as slow, tool_server.running() as closed:
        server.held.clear()
        slow.before["tools/list"] = hangs
        closed.before["initialize"] = status(401)
        servers = [entry(slow.url), entry(server.url), entry(closed.url)]
        servers = [one.model_copy(update={"name": name}) for one, name in zip(servers, "abc", strict=True)]
        catalogue = await toolservers.listed(servers, "acme", seconds=2)
        server.held.set()
    assert [one.called for one in catalogue.tools] == ["b.say"]
    assert catalogue.away.keys() == {"a", "c"}
    assert "no answer within 2 seconds" in catalogue.away["a"]
    assert "401 Unauthorized" in catalogue.away["c"]


async def test_too_many_arguments_are_not_sent(server: ToolServer) -> None:
    answer = await called(server, q="x" * toolservers.MOST_ARGUMENTS)
    assert (answer.failed, server.calls) == (True, [])


EMOJI = "\U0001f600"
COSTLY = {
    "text": text("x" * 12_000_000),
    "emoji": text(EMOJI + "x" * 12_000_000),
    "texts": {"content": [{"type": "text", "text": EMOJI + "x" * 150_000}] * 6},
    "escapes": text("\x00" * 2_000_000),
    "pictures": {"content": [{"type": "image", "data": "A" * 1_200_000, "mimeType": "image/png"}] * 20},
    "rows": text("rows", structuredContent={"rows": [{"a": [], "b": {}}] * 8_000}),
    "values": text("values", structuredContent={"rows": [[]] * 1_000_000}),
    "numbers": text("numbers", structuredContent={"rows": [10**4000] * 1_000}),
    "deep": text("deep", structuredContent={"rows": json.loads("[" * 900 + "]" * 900)}),
}


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
@pytest.mark.parametrize("name", COSTLY)
async def test_no_answer_costs_more_than_its_bound(server: ToolServer, name: str, events: bool) -> None:
    server.events = events
    await called(server)
    server.answer = COSTLY[name]
    body = server.respond({"id": 1, "method": "tools/call"}, COSTLY[name]).body
    assert isinstance(body, bytes)
    kind = "text/event-stream" if events else "application/json"

    async def respond(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # the client has read enough
            for start in range(0, len(body), 1 << 16):
                await response.write(body[start : start + (1 << 16)])
        return response

    server.before["tools/call"] = respond
    tracemalloc.start()
    try:
        answer = await called(server)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY, f"{peak >> 20} MiB"
    read = name not in ("values", "numbers", "deep")
    assert ("cannot be read" in answer.text) == (not read), answer.text[:200]
    assert answer.failed == (not read)
    answer.text.encode()


async def test_the_event_loop_has_its_turn_while_an_answer_is_read(server: ToolServer) -> None:
    """By what is read between two turns, as times would say how busy the machine is."""
    largest = 0

    class Counting(json_bounds.Bounded):
        def feed(self, piece: bytes) -> bytes:
            nonlocal largest
            largest = max(largest, len(piece))
            return super().feed(piece)

    bounded = json_bounds.Bounded
    json_bounds.Bounded = Counting  # type: ignore[misc]
    try:
        server.answer = COSTLY["rows"]
        await called(server)
    finally:
        json_bounds.Bounded = bounded  # type: ignore[misc]
    assert 0 < largest <= 8 << 10
