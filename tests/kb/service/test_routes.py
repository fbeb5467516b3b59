"""The table of routes: each row is served, each call of the client goes to a row, and no right is given by mistake."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import prometheus_client
import pytest
from pydantic import AnyHttpUrl, SecretStr

from codegraph import client as code_client
from codegraph import routes as code_routes
from contracts import http_routes
from contracts.http_routes import Caller
from kb import client, errors, metrics, routes
from kb.erasure import watch
from kb.service import http, serving
from kb.service.http import access, atomic, mcp
from kb.settings import Settings

_HTTP = Path(http.__file__).parent
_SPECIFICATION = "/api/v1/openapi.json"
NAMED = {
    name: row
    for table in (routes, code_routes)
    for name, row in vars(table).items()
    if isinstance(row, http_routes.Route)
}
"""The rows of both tables by their names, of which none is in both."""
ROWS: list[http_routes.Route[Any]] = [
    *routes.ALL,
    *code_routes.ALL,
    mcp.ROUTE,
]


def rows(where: list[http_routes.Route[Any]]) -> set[tuple[str, str]]:
    return {(row.method, row.path) for row in where}


def of(caller: Caller) -> set[tuple[str, str]]:
    return rows([row for row in ROWS if caller in row.callers])


def references(path: Path) -> Iterator[str]:
    """The rows that a module names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "routes":
            yield node.attr


def test_a_row_is_the_only_one_of_its_method_and_path() -> None:
    assert len(ROWS) == len(rows(ROWS))
    assert {*routes.ALL, *code_routes.ALL} == set(NAMED.values())
    assert len(NAMED) == len(routes.ALL) + len(code_routes.ALL)


async def test_each_row_is_served_and_each_route_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process of mode "all", whose services are away. It does not wait for MongoDB until its driver gives up."""

    async def away(_: watch.Watch) -> None:
        raise errors.Away("mongodb", "it is not there")

    monkeypatch.setattr(watch.Watch, "look", away)
    nowhere = AnyHttpUrl("http://127.0.0.1:1")
    config = Settings(
        _env_file=None,
        data_dir=tmp_path,
        mongodb_uri=SecretStr("mongodb://127.0.0.1:1"),
        router_url=nowhere,
        weaviate_url=nowhere,
    )
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    async with contextlib.AsyncExitStack() as stack:
        application = await serving.build(config, None, meters, stack, lambda done, total: None)
    assert application[access.ROUTES] == {(row.method, row.path): row for row in ROWS}
    added = {(one.method, one.resource.canonical): one.handler for one in application.router.routes() if one.resource}
    programs = {one for one in added if not one[1].startswith(("/api/", access.MCP)) or one[1] == _SPECIFICATION}
    assert rows(ROWS) == added.keys() - programs
    answering = {place: unwrapped(added[place]) for place in rows(ROWS)}
    assert len({(id(one.__self__), one.__func__) for one in answering.values()}) == len(ROWS)
    assert [place for place, one in answering.items() if not (one.__doc__ or "").startswith(" ".join(place))] == [], (
        "a handler's docstring begins with its route"
    )


def unwrapped(handler: Any) -> MethodType:
    """The method behind what counts its calls or looks at their parameters."""
    while not isinstance(handler, MethodType):
        handler = inspect.getclosurevars(handler).nonlocals["handler"]
    return handler


def test_rows_of_their_own_are_in_few_modules() -> None:
    constructors = {
        path.stem
        for path in _HTTP.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split("[")[0] in ("http_routes.Route", "Route")
    }
    assert constructors == {"mcp"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_a_row_says_one_thing(row: http_routes.Route[Any]) -> None:
    assert row.path.startswith(("/api/v1/", "/mcp"))
    assert not (row.body and row.raw_body)
    assert not (row.reply and row.raw_reply)
    assert (row.reply, row.lines, row.raw_reply) != (None, None, False) or row.status == 204
    assert not (row.asks and row.erases)
    assert set(row.repeated) <= set(row.query) | set(row.optional)
    assert not (Caller.RUN in row.callers and Caller.ADDING_RUN in row.callers)


def test_every_method_of_the_client_goes_to_a_row() -> None:
    """The probe of readiness names a path; what is sent until it is known goes through the method for one request."""
    without: list[str] = []
    folders = (Path(str(one.__file__)).parent for one in (client, code_client))
    for path in (path for folder in folders for path in folder.glob("*.py")):
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.AsyncFunctionDef) and not one.name.startswith("_"):
                called = {node.attr for node in ast.walk(one) if isinstance(node, ast.Attribute)}
                named = called & set(NAMED)
                without += [f"{path.stem}.{one.name}"] * (not named)
    assert sorted(without) == ["__init__.ready", "code.send"]


def test_a_path_is_made_of_quoted_parts() -> None:
    assert routes.CHUNKS_SHOW.at("a/b?c") == "/api/v1/chunks/a%2Fb%3Fc"
    assert routes.PAGES_IMAGE.at("p 1") == "/api/v1/search/pages/p%201/image"
    assert routes.RULES_LIST.at() == "/api/v1/rules"
    with pytest.raises(AssertionError):
        routes.CHUNKS_SHOW.at()


def test_what_a_run_reads_by() -> None:
    """A new route is closed to runs: one more of these is a decision."""
    assert of(Caller.RUN) == {
        ("POST", "/mcp"),
        ("GET", "/api/v1/rules"),
        ("GET", "/api/v1/user-context"),
        ("GET", "/api/v1/content/{key}"),
        ("GET", "/api/v1/memory/task/{uid}"),
        ("GET", "/api/v1/memory/session"),
        ("GET", "/api/v1/memory/procedural"),
        ("GET", "/api/v1/chunks/{chunkId}"),
        ("POST", "/api/v1/retrieve"),
        ("POST", "/api/v1/search/hybrid"),
        ("POST", "/api/v1/chunks/by-kind"),
        ("GET", "/api/v1/graph/nodes"),
        ("POST", "/api/v1/graph/traverse"),
        ("GET", "/api/v1/graph/relationship"),
        ("POST", "/api/v1/code/callers"),
        ("POST", "/api/v1/code/callees"),
        ("POST", "/api/v1/code/impact"),
        ("POST", "/api/v1/code/path"),
        ("POST", "/api/v1/code/where"),
        ("POST", "/api/v1/code/map"),
        ("POST", "/api/v1/code/history"),
        ("POST", "/api/v1/code/neighbourhood"),
        ("POST", "/api/v1/agentic_search"),
        ("GET", "/api/v1/agentic_search/{stream}"),
        ("DELETE", "/api/v1/agentic_search/{stream}"),
    }


def test_what_runs_and_their_jobs_write_by() -> None:
    assert of(Caller.STORING_RUN) == {("POST", "/api/v1/content")}
    assert of(Caller.APPROVED_RUN) == {("PUT", "/api/v1/rules")}
    assert of(Caller.ADDING_RUN) == {
        ("POST", "/api/v1/crawl"),
        ("POST", "/api/v1/store"),
        ("PUT", "/api/v1/memory/procedural"),
        ("POST", "/api/v1/memory/procedural/uses"),
    }
    assert of(Caller.ANALYSIS) == {
        ("POST", "/api/v1/content"),
        ("POST", "/api/v1/ingest/git-structure"),
        ("POST", "/api/v1/ingest/cpg"),
        ("POST", "/api/v1/analyze/code/{id}/result"),
    }
    assert of(Caller.SANDBOX) == {("POST", "/api/v1/content"), ("GET", "/api/v1/content/{key}")}


def test_what_is_asked_by_a_body_and_what_principals_are_shown() -> None:
    """Whatever reads needs no right to write; only stores that filter answer on behalf of a user."""
    questions = {row for row in rows(list(code_routes.ALL)) if row[1].startswith("/api/v1/code/")}
    assert len(questions) == 8
    asks = {
        ("POST", "/api/v1/retrieve"),
        ("POST", "/api/v1/search/hybrid"),
        ("POST", "/api/v1/search/pages"),
        ("POST", "/api/v1/chunks/by-kind"),
        ("POST", "/api/v1/graph/traverse"),
        ("POST", "/api/v1/agentic_search"),
        ("DELETE", "/api/v1/agentic_search/{stream}"),
        ("POST", "/api/v1/tools/searchHybrid"),
        *questions,
    }
    assert rows([row for row in ROWS if row.asks]) == asks
    shown = {
        ("GET", "/api/v1/search/pages/{pageId}/image"),
        ("GET", "/api/v1/chunks/{chunkId}"),
        ("GET", "/api/v1/graph/nodes"),
        ("GET", "/api/v1/graph/relationship"),
        ("GET", "/api/v1/agentic_search/{stream}"),
    }
    assert rows([row for row in ROWS if row.principals]) == asks | shown


def test_what_erases_and_what_is_a_tool() -> None:
    assert rows([row for row in ROWS if row.erases]) == {
        ("POST", "/api/v1/erasures"),
        ("POST", "/api/v1/erasures/places/forget"),
    }
    tools = {name for name in NAMED if name.startswith("TOOL_")}
    assert tools == {name for name in references(Path(atomic.__file__)) if name in NAMED and name.startswith("TOOL_")}
    assert all(NAMED[name].path.startswith("/api/v1/tools/") for name in tools)
