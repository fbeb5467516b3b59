"""What an answer of a backend says about it: Ollama's own texts, by status and path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.backends import records, verdict
from router.backends.verdict import Verdict
from tests.fakes.ollama.protocol import errors

_CHAT, _OPENAI = "/api/chat", "/v1/chat/completions"


@pytest.mark.parametrize("path", [_CHAT, _OPENAI])
@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (404, "model 'qwen3' not found", Verdict.MODEL_MISSING),
        (404, 'model "qwen3" not found, try pulling it first', Verdict.MODEL_MISSING),
        (404, "model 'it\"s' not found", Verdict.MODEL_MISSING),
        (400, '"qwen3" does not support generate', Verdict.REQUEST),
        (401, "unauthorized", Verdict.REQUEST),
        (429, "too many requests", Verdict.REQUEST),
        (499, "request canceled", Verdict.REQUEST),
        (500, 'option "num_ctx" must be of type integer', Verdict.REQUEST),
        (500, "template: :1: unexpected EOF", Verdict.REQUEST),
        (500, "the input length exceeds the context length", Verdict.REQUEST),
        (500, "input (812 tokens) is too large to process. increase the physical batch size", Verdict.REQUEST),
        (500, "invalid JSON schema in format", Verdict.REQUEST),
        (500, "error parsing tool call: raw='{\"a\": model runner has unexpectedly stopped', err=invalid character 'm'",
         Verdict.REQUEST),
        (500, "Failed to create new sequence: failed to process inputs: invalid image index: 3", Verdict.REQUEST),
        (500, "failed to create new sequence: no input provided", Verdict.REQUEST),
        (500, "something else: invalid JSON schema in format", Verdict.MODEL_FAILED),
        (500, "model requires more system memory (8.1 GiB) than is available (7.3 GiB)", Verdict.UNABLE),
        (503, "server busy, please try again.  maximum pending requests exceeded", Verdict.BUSY),
        (500, "llama runner process has terminated: exit status 2", Verdict.MODEL_FAILED),
        (500, "model runner has unexpectedly stopped, this may be due to resource limitations", Verdict.MODEL_FAILED),
        (500, "unexpected EOF", Verdict.MODEL_FAILED),
        (400, 'do embedding request: Post "http://127.0.0.1:1/embedding": EOF', Verdict.MODEL_FAILED),
        (400, "llama runner process no longer running: -1", Verdict.MODEL_FAILED),
        (400, "connection refused", Verdict.MODEL_FAILED),
        (400, 'do embedding request: Post "http://127.0.0.1:1/embedding": dial tcp: refused', Verdict.MODEL_FAILED),
        (400, "no: llama runner process no longer running: -1", Verdict.REQUEST),
        (500, "POST predict: Post \"http://127.0.0.1:1/completion\": EOF", Verdict.MODEL_FAILED),
    ],
)  # fmt: skip
def test_by_status_and_text_on_both_apis(path: str, status: int, text: str, expected: Verdict) -> None:
    body = json.dumps(errors.Refusal(status, text).body(path)).encode()
    assert verdict.of(status, body, model=True) is expected


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"error":"in a stream"}', Verdict.FINE),
        (404, b"404 page not found", Verdict.UNABLE),
        (404, b'{"error":"file not found"}', Verdict.UNABLE),
        (404, b'{"type":"error","error":{"type":"not_found_error","message":"model \'x\' not found"}}',
         Verdict.MODEL_MISSING),
        (500, b"<html>Internal Server Error</html>", Verdict.BACKEND_FAILED),
        (502, b"<html>Bad Gateway</html>", Verdict.BACKEND_FAILED),
        (504, b"", Verdict.BACKEND_FAILED),
        (503, b"<html>Service Unavailable</html>", Verdict.BUSY),
    ],
)  # fmt: skip
def test_answers_that_have_no_text_of_ollama_s(status: int, body: bytes, expected: Verdict) -> None:
    assert verdict.of(status, body, model=True) is expected


def _vllm(message: str, kind: str, code: int) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, _vllm("The model `m` does not exist.", "NotFoundError", 404), Verdict.MODEL_MISSING),
        (404, b'{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","code":404}',
         Verdict.MODEL_MISSING),
        (404, _vllm("model 'm' not found", "not_found_error", 404), Verdict.MODEL_MISSING),
        (404, _vllm("Response with id 'resp_ model `m` does not exist' not found.", "invalid_request_error", 404),
         Verdict.UNABLE),
        (404, _vllm("File Not Found", "not_found_error", 404), Verdict.UNABLE),
        (404, b'{"detail":"Not Found"}', Verdict.UNABLE),
        (400, _vllm("The model does not support Embeddings API", "BadRequestError", 400), Verdict.UNABLE),
        (400, _vllm("This model's maximum context length is 4096 tokens.", "BadRequestError", 400), Verdict.REQUEST),
        (501, _vllm("This server does not support embeddings.", "not_supported_error", 501), Verdict.UNABLE),
        (500, _vllm("Llama model must be created with embedding=True to call", "internal_server_error", 500),
         Verdict.UNABLE),
        (429, _vllm("Rate limit exceeded", "rate_limit_error", 429), Verdict.BUSY),
        (503, _vllm("Loading model", "unavailable_error", 503), Verdict.BUSY),
        (500, _vllm("EngineCore encountered an issue.", "InternalServerError", 500), Verdict.MODEL_FAILED),
        (500, b"Internal Server Error", Verdict.BACKEND_FAILED),
        (401, b'{"error":"Unauthorized"}', Verdict.REQUEST),
    ],
)  # fmt: skip
def test_answers_of_openai_servers(status: int, body: bytes, expected: Verdict) -> None:
    assert verdict.of(status, body, model=True, openai=True) is expected


def test_404_of_what_names_no_model_is_the_client_s_answer() -> None:
    assert verdict.of(404, b'{"error":"model \'x\' not found"}', model=False) is Verdict.REQUEST


@given(st.integers(100, 599), st.binary(max_size=200))
def test_any_answer_has_a_verdict_and_only_ollama_s_own_words_take_a_model_away(status: int, body: bytes) -> None:
    found = verdict.of(status, body, model=True)
    assert (found is Verdict.FINE) == (status < 400)
    assert found is not Verdict.MODEL_MISSING or b"not found" in body


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["models", "name", "model", "id"]), inner)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_is_a_list_of_models_or_none(document: object) -> None:
    found = records.listed(document)
    assert (found is None) == (not isinstance(document, dict))
    for record in found or ():
        assert isinstance(records.name(record), str)
        assert records.size(record, "name") >= 0
    assert "" not in records.names(found or ())
