"""Other names for models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from router.aliases import Aliases
from router.proxy import rewrite
from tests.router import process, wire

_TOKEN = "alice-alice-alice"


async def test_a_request_for_an_alias_is_one_for_its_model(tmp_path: Path) -> None:
    aliases = json.dumps({"gpt-4o": "qwen2.5:7b", "best": "GPT-4o"})
    async with process.before(tmp_path, wire.echo, models=("qwen2.5:7b",), aliases=aliases) as (router, backend):
        long = [{"role": "user", "content": "x" * 100_000}]
        for path in ("/api/chat", "/v1/chat/completions", "/v1/embeddings", "/api/show"):
            for name in ("gpt-4o", "GPT-4o:latest", "best"):
                for messages in ([], long):
                    asked = {"stream": False, "model": name, "messages": messages}
                    answer = await router.post(path, asked)
                    assert (answer.status, answer.json()) == (200, {**asked, "model": "qwen2.5:7b"}), path
        assert (await router.post("/api/show", {"name": "best"})).json() == {"name": "qwen2.5:7b"}
        assert (await router.get("/v1/models/gpt-4o?x=1")).status == 200
        assert backend.requests[-1].path == "/v1/models/qwen2.5%3A7b?x=1"
        assert (await router.post("/api/chat", {"model": "qwen2.5:7b"})).status == 200
        assert (await router.post("/api/chat", {"model": "gpt-4"})).status == 404
        tags = (await router.get("/api/tags")).json()["models"]
        assert [model["name"] for model in tags] == ["qwen2.5:7b", "gpt-4o", "best"]
        listed = (await router.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["qwen2.5:7b", "gpt-4o", "best"]
        explained = await router.get("/router/explain?model=best")
        assert (explained.json()["model"], explained.json()["verdict"]) == ("qwen2.5:7b", "Dispatch")
        metric = 'jervis_router_requests_total{backend="raw",model="qwen2.5:7b",priority="Auto"}'
        assert await router.metric(metric) == 27


async def test_rights_are_those_of_the_model(tmp_path: Path) -> None:
    tokens = process.tokens(tmp_path, {"name": "alice", "token": _TOKEN, "models": ["small"]})
    aliases = json.dumps({"little": "small", "large": "big"})
    async with process.before(
        tmp_path, wire.echo, models=("small:latest", "big:latest"), aliases=aliases, tokens_file=tokens
    ) as (router, _):
        bearer = wire.bearer(_TOKEN)
        for model, status in (("little", 200), ("large", 403)):
            answer = await router.post("/api/chat", {"model": model}, bearer)
            assert answer.status == status
        tags = (await router.get("/api/tags", bearer)).json()["models"]
        assert [model["name"] for model in tags] == ["small:latest", "little"]


async def test_an_alias_that_hides_a_model_is_reported(tmp_path: Path) -> None:
    aliases = json.dumps({"small": "big"})
    opened = process.before(tmp_path, wire.echo, models=("small:latest", "big:latest"), aliases=aliases)
    async with opened as (router, _):
        answer = await router.post("/api/chat", {"model": "small"})
        assert answer.json()["model"] == "big"
        (warned,) = [event for event in router.events() if event["event"] == "an alias hides a model of that name"]
        assert (warned["alias"], warned["stands_for"]) == ("small:latest", "big")
        tags = (await router.get("/api/tags")).json()["models"]
        assert [model["name"] for model in tags] == ["small", "big:latest"]


async def test_a_circle_ends_the_start_and_is_shown(tmp_path: Path) -> None:
    router = process.start(tmp_path, [], aliases=json.dumps({"a": "b", "b": "a"}))
    assert await router.ended() == 2
    assert "aliases" in router.text()
    assert "a -> b -> a is a circle" in router.text()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"a": "A:latest"}, "circle"),
        ({"x": "a", "a": "b", "b": "a"}, "a -> b -> a"),
        ({"a": "b", "A:latest": "c"}, "one name"),
        ({"a*": "b"}, "no name"),
        ({"a": "b*"}, "no name"),
        ({"a": " "}, "no name"),
    ],
)
def test_aliases_that_cannot_be_used(given: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("*", ".")):
        Aliases(given)


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (b'{"model":"a"}', b'{"model":"new"}'),
        (
            b' { "Model" : "a" , "x":{"model":"a"},"model":"\\u0061"} ',
            b' { "Model" : "new" , "x":{"model":"a"},"model":"new"} ',
        ),
        (b'{"mo\\u0064el":"a","x":"model"}', b'{"mo\\u0064el":"new","x":"model"}'),
    ],
)
def test_every_other_byte_stays(body: bytes, changed: bytes) -> None:
    assert rewrite.renamed(body, ("model",), "new") == changed
