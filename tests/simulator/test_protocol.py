"""Ollama's shapes, word for word, from a real process."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import httpx
import pytest

from tests.fakes.ollama import process

SCHEMA = {
    "type": "object",
    "properties": {"mood": {"enum": ["calm", "angry"]}, "count": {"type": "integer"}, "why": {"type": "string"}},
    "required": ["mood", "count", "why"],
}


async def lines(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    response = await http.post(path, json=body)
    response.raise_for_status()
    return response.headers["content-type"], [json.loads(line) for line in response.text.splitlines()]


async def test_the_front_door(http: httpx.AsyncClient) -> None:
    assert (await http.get("/")).text == "Ollama is running"
    head = await http.head("/")
    assert (head.status_code, head.content) == (200, b"")
    version = (await http.get("/api/version")).json()
    assert version["simulator"] is True
    assert "not a language model" in version["name"]
    assert (await http.head("/api/tags")).status_code == 200
    unknown = await http.get("/api/nothing")
    assert (unknown.status_code, unknown.text) == (404, "404 page not found")
    assert (await http.get("/api/chat")).status_code == 405


async def test_the_catalogue(http: httpx.AsyncClient) -> None:
    models = (await http.get("/api/tags")).json()["models"]
    assert [model["name"] for model in models] == ["small:1b", "other:1b", "third:1b", "qwen3-embedding:8b"]
    assert {"model", "modified_at", "size", "digest", "details"} <= set(models[0])
    assert [model["id"] for model in (await http.get("/v1/models")).json()["data"]] == [m["name"] for m in models]
    assert (await http.get("/v1/models/small:1b")).json()["id"] == "small:1b"
    shown = (await http.post("/api/show", json={"model": "qwen3-embedding:8b"})).json()
    assert shown["capabilities"] == ["embedding"]
    assert shown["details"]["parameter_size"] == "8.0B"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/generate", {"prompt": "The backup took 41 minutes."}, "response"),
        ("/api/chat", {"messages": [{"role": "user", "content": "The backup took 41 minutes."}]}, "message"),
    ],
)
async def test_a_stream_and_its_whole(http: httpx.AsyncClient, path: str, body: dict[str, Any], field: str) -> None:
    def said(document: dict[str, Any]) -> str:
        value = document[field]
        return str(value["content"] if isinstance(value, dict) else value)

    kind, streamed = await lines(http, path, {"model": "small:1b", **body})
    assert kind == "application/x-ndjson"
    assert [one["done"] for one in streamed] == [False] * (len(streamed) - 1) + [True]
    assert len(streamed) > 3
    last = streamed[-1]
    assert (last["done_reason"], last["eval_count"], said(last)) == ("stop", len(streamed) - 1, "")
    assert {"total_duration", "prompt_eval_count", "created_at", "model"} <= set(last)
    kind, whole = await lines(http, path, {"model": "small:1b", "stream": False, **body})
    assert kind == "application/json; charset=utf-8"
    assert said(whole[0]) == "".join(said(one) for one in streamed) == "The backup took 41 minutes."


async def test_structured_output(http: httpx.AsyncClient, fake: process.Fake) -> None:
    body = {"model": "small:1b", "stream": False, "prompt": "They were angry about 12 failures.", "format": SCHEMA}
    answer = json.loads((await http.post("/api/generate", json=body)).json()["response"])
    assert answer == {"mood": "angry", "count": 12, "why": "They were angry about 12 failures."}
    body["format"] = "json"
    assert isinstance(json.loads((await http.post("/api/generate", json=body)).json()["response"]), dict)
    assert fake.count(path="/api/generate", outcome="finished") == 2


async def test_num_predict_and_stop(http: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"model": "small:1b", "stream": False, "prompt": "One two three. Four five six."}
    cut = (await http.post("/api/generate", json=body | {"options": {"num_predict": 2}})).json()
    assert (cut["response"], cut["done_reason"], cut["eval_count"]) == ("One two", "length", 2)
    stopped = (await http.post("/api/generate", json=body | {"options": {"stop": ["three"]}})).json()
    assert (stopped["response"], stopped["done_reason"]) == ("One two ", "stop")


async def test_openai_chat(http: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {
        "model": "small:1b",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "The backup took 41 minutes."}]}],
    }
    whole = (await http.post("/v1/chat/completions", json=body)).json()
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "The backup took 41 minutes."}
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]
    response = await http.post(
        "/v1/chat/completions", json=body | {"stream": True, "stream_options": {"include_usage": True}}
    )
    assert response.headers["content-type"] == "text/event-stream"
    frames = response.text.removesuffix("\n\n").split("\n\n")
    assert frames[-1] == "data: [DONE]"
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks[:-1]) == "The backup took 41 minutes."
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert (chunks[-1]["choices"], chunks[-1]["usage"]) == ([], whole["usage"])
    wanted = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    shaped = (await http.post("/v1/chat/completions", json=body | {"response_format": wanted})).json()
    assert json.loads(shaped["choices"][0]["message"]["content"])["count"] == 41


async def test_openai_completions(http: httpx.AsyncClient) -> None:
    said = (await http.post("/v1/completions", json={"model": "small:1b", "prompt": "It rains."})).json()
    assert (said["object"], said["choices"][0]["text"]) == ("text_completion", "It rains.")


async def test_embeddings_agree_over_all_three_paths(http: httpx.AsyncClient) -> None:
    model = "qwen3-embedding:8b"
    native = (await http.post("/api/embed", json={"model": model, "input": ["one text", "another"]})).json()
    assert [len(vector) for vector in native["embeddings"]] == [384, 384]
    assert native["prompt_eval_count"] == 4 + 3
    old = (await http.post("/api/embeddings", json={"model": model, "prompt": "one text"})).json()
    assert old["embedding"] == pytest.approx(native["embeddings"][0], abs=1e-5)
    openai = (await http.post("/v1/embeddings", json={"model": model, "input": "one text"})).json()
    assert openai["data"][0]["embedding"] == pytest.approx(old["embedding"], abs=1e-5)
    body = {"model": model, "input": "one text", "encoding_format": "base64"}
    packed = (await http.post("/v1/embeddings", json=body)).json()["data"][0]["embedding"]
    assert struct.unpack("<384f", base64.b64decode(packed)) == pytest.approx(old["embedding"], abs=1e-5)
    short = (await http.post("/api/embed", json={"model": model, "input": "one text", "dimensions": 64})).json()
    assert len(short["embeddings"][0]) == 64
    assert sum(value * value for value in short["embeddings"][0]) == pytest.approx(1, abs=1e-4)
    assert (await http.post("/api/embed", json={"model": model, "input": []})).json()["embeddings"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/api/chat", {"model": "gone", "messages": [{"role": "user", "content": "x"}]}, 404, "model 'gone' not found"),
        ("/api/generate", {"model": "gone:7b", "prompt": "x"}, 404, "model 'gone:7b' not found"),
        ("/api/embed", {"model": "gone", "input": "x"}, 404, 'model "gone" not found, try pulling it first'),
        ("/api/show", {"model": "gone"}, 404, "model 'gone' not found"),
        ("/api/chat", {"messages": []}, 400, "model is required"),
        ("/api/embed", {"model": "small:1b", "input": "x"}, 501, "this model does not support embeddings"),
        ("/api/embed", {"model": "qwen3-embedding:8b", "input": [1]}, 400, "invalid input type"),
        (
            "/api/generate",
            {"model": "qwen3-embedding:8b", "prompt": "x"},
            400,
            '"qwen3-embedding:8b" does not support generate',
        ),
        (
            "/api/generate",
            {"model": "small:1b", "prompt": "x", "keep_alive": "5"},
            400,
            'time: missing unit in duration "5"',
        ),
        ("/api/generate", {"model": "small:1b", "prompt": "x", "format": "xml"}, 500, "invalid format: "),
        (
            "/api/generate",
            {"model": "small:1b", "prompt": 7},
            400,
            "json: cannot unmarshal number into Go struct field ",
        ),
        ("/api/pull", {"model": "small:1b"}, 501, "this is a simulator: it cannot pull models"),
        ("/api/create", {"model": "small:1b"}, 501, "this is a simulator: it cannot create models"),
    ],
)
async def test_refusals(http: httpx.AsyncClient, path: str, body: dict[str, Any], status: int, error: str) -> None:
    response = await http.post(path, json=body)
    assert response.status_code == status
    assert response.json()["error"].startswith(error)


async def test_bodies_that_are_no_object(http: httpx.AsyncClient) -> None:
    assert (await http.post("/api/chat", content=b"")).json() == {"error": "missing request body"}
    assert (await http.post("/api/chat", content=b"{")).status_code == 400
    assert (await http.post("/api/chat", content=b"[]")).status_code == 400


async def test_openai_errors_have_their_envelope(http: httpx.AsyncClient) -> None:
    body = {"model": "gone", "messages": [{"role": "user", "content": "x"}]}
    error = (await http.post("/v1/chat/completions", json=body)).json()["error"]
    assert error == {"message": "model 'gone' not found", "type": "api_error", "param": None, "code": None}


async def test_model_names_are_normalised_and_kept_as_spelt(http: httpx.AsyncClient) -> None:
    said = (await http.post("/api/generate", json={"model": "SMALL:1b", "prompt": "x y", "stream": False})).json()
    assert said["model"] == "SMALL:1b"


async def test_the_journal_keeps_headers_and_counts(http: httpx.AsyncClient, fake: process.Fake) -> None:
    body = {"model": "small:1b", "prompt": "[prompt:kb.hints/v2] x", "stream": False, "format": {"type": "object"}}
    for priority in ("0", "3", "3"):
        await http.post("/api/generate", json=body, headers={"X-Ollama-Priority": priority})
    listed = fake.requests(path="/api/generate")
    assert [(one["tag"], one["priority"], one["status"]) for one in listed] == [
        ("kb.hints/v2", priority, 200) for priority in ("0", "3", "3")
    ]
    assert listed[0]["headers"]["X-Ollama-Priority"] == "0"
    assert listed[0]["seq"] < listed[0]["granted"] < listed[0]["ended"] < listed[1]["seq"]
    rows = (await http.get("/simulator/counters")).json()["requests"]
    assert {"path": "/api/generate", "model": "small:1b", "priority": "3", "count": 2} in rows
    assert (await http.get("/simulator/requests", params={"colour": "red"})).status_code == 400


async def test_tools_are_called_as_ollama_has_it(http: httpx.AsyncClient, fake: process.Fake) -> None:
    """docs/api.md of Ollama, "Chat request (Streaming, with tools)": one message of calls with an empty content."""
    call = {"name": "routeTask", "arguments": {"routing": "DONE", "reason": "r"}}
    fake.set_script({"kb.qualify.tools/v1": [{"toolCalls": [call]}] * 2 + ["x"]})
    tool = {"type": "function", "function": {"name": "routeTask", "description": "d", "parameters": {}}}
    body = {"model": "small:1b", "tools": [tool],
            "messages": [{"role": "user", "content": "[prompt:kb.qualify.tools/v1]"}]}  # fmt: skip
    _, (first, last) = await lines(http, "/api/chat", body)
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": call}]}
    assert (first["message"], first["done"], last["done"], last["message"]["content"]) == (message, False, True, "")
    bare = {**body, "tools": []}
    whole = (await http.post("/api/chat", json={**body, "stream": False})).json()
    assert (whole["message"], whole["done"]) == (message, True)
    assert whole["prompt_eval_count"] > (await lines(http, "/api/chat", bare))[1][-1]["prompt_eval_count"]
    wrong = await http.post("/api/chat", json={**body, "tools": [{"function": {"name": 7}}]})
    assert wrong.status_code == 400


async def test_a_scripted_call_has_what_the_messages_say(http: httpx.AsyncClient, fake: process.Fake) -> None:
    call = {"name": "push", "arguments": {"commit": "COMMIT", "branch": "BRANCH"}}
    fill = {"COMMIT": "Committed: ([0-9a-f]{4})", "BRANCH": "Branch: (\\w+)"}
    fake.set_script({"a/v1": [{"toolCalls": [call], "fill": fill}]})
    tool = {"type": "function", "function": {"name": "push", "description": "d", "parameters": {}}}
    said = "[prompt:a/v1] Committed: 0a1b. Committed: beef."
    body = {"model": "small:1b", "stream": False, "tools": [tool], "messages": [{"role": "user", "content": said}]}
    [made] = (await http.post("/api/chat", json=body)).json()["message"]["tool_calls"]
    assert made["function"]["arguments"] == {"commit": "beef", "branch": "BRANCH"}
    with pytest.raises(ValueError, match="fill must be words with patterns"):
        fake.set_script({"a/v1": [{"toolCalls": [call], "fill": {"COMMIT": "("}}]})
