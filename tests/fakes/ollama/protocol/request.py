"""What a client asks for, the same for all six endpoints: parsed from the native and the OpenAI-compatible bodies."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, Field, StrictBool, StrictInt, ValidationError

from tests.fakes.ollama.protocol import errors, quantity

Format = Any
"""`json`, a JSON Schema or nothing; anything else is refused later (`formats`)."""
_Kind = TypeVar("_Kind", bound=BaseModel)


@dataclass(frozen=True)
class Message:
    """One turn. `role` is system, user, assistant or tool."""

    role: str
    content: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generation:
    """One generation. `keep_alive` in seconds, None when the request is silent; `load_only` for an empty prompt."""

    model: str
    messages: tuple[Message, ...]
    stream: bool
    format: Format = None
    num_ctx: int | None = None
    num_predict: int | None = None
    stop: tuple[str, ...] = ()
    keep_alive: float | None = None
    load_only: bool = False
    include_usage: bool = False
    think: bool | str = False
    """Whether the model is told to think; a word says how much."""
    tools: tuple[str, ...] = ()
    """The names of the tools that the model may call (Ollama's `tools`)."""
    offered: str = ""
    """The tools as the model's template writes them into the prompt."""
    truncate: bool = True
    """Whether a prompt that is longer than `num_ctx` is cut; otherwise it is refused."""


@dataclass(frozen=True)
class Embedding:
    """One embedding request: the texts, and how the vectors are wanted."""

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    truncate: bool = True
    num_ctx: int | None = None
    keep_alive: float | None = None
    encoding: str = ""


_INTEGERS = {"num_keep", "seed", "num_predict", "top_k", "repeat_last_n", "num_ctx", "num_batch", "num_gpu", "main_gpu",
             "num_thread"}  # fmt: skip
_FLOATS = {"top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty", "frequency_penalty"}
_EFFORTS = ("high", "medium", "low")


@dataclass(frozen=True)
class _Options:
    """Of `options` what matters to rules."""

    num_ctx: int | None = None
    num_predict: int | None = None
    stop: tuple[str, ...] = ()


class _Native(BaseModel):
    model: str = ""
    stream: StrictBool | None = None
    format: Any = None
    options: dict[str, Any] | None = None
    keep_alive: Any = None
    think: Any = None
    truncate: StrictBool | None = None


class _Generate(_Native):
    prompt: str = ""
    system: str = ""


class _Turn(BaseModel):
    role: str = ""
    content: str | None = ""
    images: list[str] | None = None


class _Function(BaseModel):
    name: str = ""


class _Tool(BaseModel):
    type: str = "function"
    function: _Function = Field(default_factory=_Function)


class _Chat(_Native):
    messages: list[_Turn] | None = None
    tools: list[_Tool] | None = None


class _StreamOptions(BaseModel):
    include_usage: StrictBool = False


class _OpenAI(BaseModel):
    model: str = ""
    stream: StrictBool = False
    stream_options: _StreamOptions = Field(default_factory=_StreamOptions)
    max_tokens: StrictInt | None = None
    max_completion_tokens: StrictInt | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None


class _Completions(_OpenAI):
    prompt: str = ""


class _Said(_Turn):
    """A message of OpenAI's, whose content may have parts."""

    content: str | list[dict[str, Any]] | None = ""  # type: ignore[assignment]  # wider than Ollama's


class _ChatCompletions(_OpenAI):
    messages: list[_Said] = Field(default_factory=list)


class _Embed(BaseModel):
    model: str = ""
    input: Any = None
    prompt: str | None = None
    dimensions: StrictInt | None = None
    truncate: StrictBool | None = None
    options: dict[str, Any] | None = None
    keep_alive: Any = None
    encoding_format: str = "float"


_NAMES = {name for kind in (_Generate, _Chat, _Turn, _Tool, _Function, _Completions, _ChatCompletions, _Embed)
          for name in kind.model_fields}  # fmt: skip
"""Fields. pydantic names the members of unions, too."""


class Rerank(BaseModel):
    """POST /v1/rerank, as llama.cpp's server reads it."""

    model: str
    query: str
    documents: list[str] = Field(min_length=1)
    top_n: int | None = Field(None, ge=1)


@dataclass(frozen=True)
class Body:
    """A parsed JSON object; `document` is kept for the journal."""

    document: dict[str, Any] = field(default_factory=dict)

    def generate(self) -> Generation:
        """POST /api/generate."""
        asked = self._as(_Generate, "GenerateRequest")
        turns = [Message("system", asked.system)] if asked.system else []
        return _native(asked, [*turns, Message("user", asked.prompt)], load_only=not asked.prompt)

    def chat(self) -> Generation:
        """POST /api/chat."""
        asked = self._as(_Chat, "ChatRequest")
        turns = asked.messages or []
        made = [Message(turn.role, turn.content or "", tuple(turn.images or ())) for turn in turns]
        _images(image for turn in turns for image in turn.images or ())
        names = tuple(tool.function.name for tool in asked.tools or ())
        return replace(_native(asked, made, load_only=not turns), tools=names, offered=_written(self.document))

    def completions(self) -> Generation:
        """POST /v1/completions."""
        asked = self._as(_Completions, "CompletionRequest")
        return _openai(asked, [Message("user", asked.prompt)])

    def chat_completions(self) -> Generation:
        """POST /v1/chat/completions."""
        asked = self._as(_ChatCompletions, "ChatCompletionRequest")
        if not asked.messages:
            raise errors.Unreadable("[] is too short - 'messages'")
        return _openai(asked, [Message(turn.role, _text(turn.content)) for turn in asked.messages])

    def embed(self) -> Embedding:
        """POST /api/embed and /v1/embeddings."""
        asked = self._as(_Embed, "EmbedRequest")
        if asked.input is None or asked.input == "":
            texts: list[Any] = []
        else:
            texts = asked.input if isinstance(asked.input, list) else [asked.input]
        if not all(isinstance(text, str) for text in texts):
            raise errors.Refusal(400, "invalid input type")
        return self._embedding(asked, texts)

    def rerank(self) -> Rerank:
        """POST /v1/rerank."""
        return self._as(Rerank, "RerankRequest")

    def embeddings(self) -> Embedding:
        """POST /api/embeddings, the older form with one `prompt`."""
        asked = self._as(_Embed, "EmbeddingRequest")
        return self._embedding(asked, [asked.prompt] if asked.prompt else [])

    def _embedding(self, asked: _Embed, texts: list[str]) -> Embedding:
        return Embedding(
            model=asked.model,
            texts=tuple(texts),
            dimensions=max(0, asked.dimensions or 0) or None,
            truncate=asked.truncate is not False,
            num_ctx=_options(asked.options).num_ctx,
            keep_alive=_keep_alive(asked.keep_alive),
            encoding=asked.encoding_format.lower(),
        )

    def _as(self, kind: type[_Kind], name: str) -> _Kind:
        """The fields of the body. `name`: what Ollama calls the request."""
        try:
            return kind.model_validate({key: value for key, value in self.document.items() if value is not None})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(part for part in first["loc"] if isinstance(part, str) and part in _NAMES)
            wanted = first["type"].removesuffix("_type")
            name = "ToolFunction" if "function" in where else name
            raise errors.Unreadable(
                f"json: cannot unmarshal {_kind(first['input'])} into Go struct field {name}.{where} of type {wanted}"
            ) from error


def parse(raw: bytes, *, openai: bool = False) -> Body:
    """The body as a JSON object, or Ollama's 400. The content type is not looked at, as Ollama does not. `openai`: of
    a path of `/v1`."""
    text = raw.decode(errors="replace").lstrip()
    if not text:
        raise errors.Unreadable("EOF" if openai else "missing request body")
    try:
        document, _ = json.JSONDecoder().raw_decode(text)  # what follows the value is not looked at
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            raise errors.Unreadable("unexpected EOF") from error
        raise errors.Unreadable(f"invalid character {text[error.pos]!r}: {error.msg}") from error
    if document is not None and not isinstance(document, dict):
        raise errors.Unreadable(f"json: cannot unmarshal {_kind(document)} into Go value of type api.Request")
    return Body(document or {})


def _native(asked: _Native, turns: list[Message], load_only: bool) -> Generation:
    if asked.think is not None and not isinstance(asked.think, bool | str):
        raise errors.Unreadable('think must be a boolean or string ("high", "medium", "low", true, or false)')
    if isinstance(asked.think, str) and asked.think not in _EFFORTS:
        choices = '(must be "high", "medium", "low", true, or false)'
        raise errors.Unreadable(f"invalid think value: {json.dumps(asked.think)} {choices}")
    options = _options(asked.options)
    return Generation(
        model=asked.model,
        messages=tuple(turns),
        stream=asked.stream is not False,
        format=None if asked.format == "" else asked.format,
        num_ctx=options.num_ctx,
        num_predict=options.num_predict,
        stop=options.stop,
        keep_alive=_keep_alive(asked.keep_alive),
        load_only=load_only,
        think=asked.think or False,
        truncate=asked.truncate is not False,
    )


def _openai(asked: _OpenAI, turns: list[Message]) -> Generation:
    wanted = asked.response_format or {}
    shape: Format = None
    if wanted.get("type") == "json_object":
        shape = "json"
    elif wanted.get("type") == "json_schema":
        shape = (wanted.get("json_schema") or {}).get("schema")
    effort = asked.reasoning_effort
    if effort and effort not in (*_EFFORTS, "none"):
        choices = '(must be "high", "medium", "low", or "none")'
        raise errors.Unreadable(f"invalid reasoning value: '{effort}' {choices}")
    stop = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    return Generation(
        model=asked.model,
        messages=tuple(turns),
        stream=asked.stream,
        think=effort if effort in _EFFORTS else False,
        format=shape,
        num_predict=asked.max_completion_tokens or asked.max_tokens,
        stop=tuple(stop),
        include_usage=asked.stream_options.include_usage,
    )


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document["tools"]) if document.get("tools") else ""


def _options(sent: dict[str, Any] | None) -> _Options:
    """`Options.FromMap` in Ollama's `api/types.go`: unknown options are nothing, and a fraction of a whole number is
    cut."""
    known = {name: value for name, value in (sent or {}).items() if value is not None}
    for name, value in known.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in _INTEGERS | _FLOATS and not number:
            kind = "integer" if name in _INTEGERS else "float32"
            raise errors.Refusal(500, f'option "{name}" must be of type {kind}')
    stop = known.get("stop", [])
    if not isinstance(stop, list):
        raise errors.Refusal(500, 'option "stop" must be of type array')
    if not all(isinstance(each, str) for each in stop):
        raise errors.Refusal(500, 'option "stop" must be of an array of strings')
    whole = {name: int(known[name]) for name in ("num_ctx", "num_predict") if name in known}
    return _Options(whole.get("num_ctx"), whole.get("num_predict"), tuple(stop))


def _images(encoded: Iterable[str]) -> None:
    """Refuse what is no base64, before a model is loaded for it."""
    for image in encoded:
        try:
            base64.b64decode(image, validate=True)
        except ValueError as error:
            raise errors.Unreadable(f"illegal base64 data at input byte 0: {error}") from error


def _keep_alive(value: object) -> float | None:
    try:
        return quantity.to_seconds(value)
    except ValueError as error:
        raise errors.Unreadable(str(error)) from error


def _kind(value: object) -> str:
    """What Go's encoding/json calls a value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
