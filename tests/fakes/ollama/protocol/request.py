"""What a client asks for, the same for all six endpoints: parsed from the native and the OpenAI-compatible bodies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.fakes.ollama.protocol import errors, quantity

Format = dict[str, Any] | Literal["json"] | None
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
    think: bool = False
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
    base64: bool = False


class _Options(BaseModel):
    model_config = ConfigDict(extra="allow")  # sampling options do not matter to rules

    num_ctx: int | None = Field(None, ge=1)
    num_predict: int | None = None
    stop: list[str] | None = None


class _Native(BaseModel):
    model: str = ""
    stream: bool | None = None
    format: Any = None
    options: _Options = Field(default_factory=_Options)
    keep_alive: int | float | str | None = None
    think: bool | str | None = None
    truncate: bool | None = None


class _Generate(_Native):
    prompt: str = ""
    system: str = ""


class _Turn(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = ""
    images: list[str] | None = None


class _Function(BaseModel):
    name: str


class _Tool(BaseModel):
    type: Literal["function"] = "function"
    function: _Function


class _Chat(_Native):
    messages: list[_Turn] | None = None
    tools: list[_Tool] = Field(default_factory=list)


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _OpenAI(BaseModel):
    model: str = ""
    stream: bool = False
    stream_options: _StreamOptions = Field(default_factory=_StreamOptions)
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None


class _Completions(_OpenAI):
    prompt: str = ""


class _ChatCompletions(_OpenAI):
    messages: list[_Turn] = Field(default_factory=list)


class _Embed(BaseModel):
    model: str = ""
    input: Any = None
    prompt: str | None = None
    dimensions: int | None = Field(None, ge=0)
    truncate: bool | None = None
    options: _Options = Field(default_factory=_Options)
    keep_alive: int | float | str | None = None
    encoding_format: str = "float"


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
        asked = self._as(_Generate)
        turns = [Message("system", asked.system)] if asked.system else []
        return _native(asked, [*turns, Message("user", asked.prompt)], load_only=not asked.prompt)

    def chat(self) -> Generation:
        """POST /api/chat."""
        asked = self._as(_Chat)
        turns = asked.messages or []
        made = [Message(turn.role, _text(turn.content), tuple(turn.images or ())) for turn in turns]
        names = tuple(one.function.name for one in asked.tools)
        return replace(_native(asked, made, load_only=not turns), tools=names, offered=_written(self.document))

    def completions(self) -> Generation:
        """POST /v1/completions."""
        asked = self._as(_Completions)
        return _openai(asked, [Message("user", asked.prompt)])

    def chat_completions(self) -> Generation:
        """POST /v1/chat/completions."""
        asked = self._as(_ChatCompletions)
        if not asked.messages:
            raise errors.Refusal(400, "[] is too short - 'messages'")
        return _openai(asked, [Message(turn.role, _text(turn.content)) for turn in asked.messages])

    def embed(self) -> Embedding:
        """POST /api/embed and /v1/embeddings."""
        asked = self._as(_Embed)
        if asked.input is None or asked.input == "":
            texts: list[Any] = []
        else:
            texts = asked.input if isinstance(asked.input, list) else [asked.input]
        if not all(isinstance(text, str) for text in texts):
            raise errors.Refusal(400, "invalid input type")
        return self._embedding(asked, texts)

    def rerank(self) -> Rerank:
        """POST /v1/rerank."""
        return self._as(Rerank)

    def embeddings(self) -> Embedding:
        """POST /api/embeddings, the older form with one `prompt`."""
        asked = self._as(_Embed)
        return self._embedding(asked, [asked.prompt] if asked.prompt else [])

    def _embedding(self, asked: _Embed, texts: list[str]) -> Embedding:
        return Embedding(
            model=_model(asked.model),
            texts=tuple(texts),
            dimensions=asked.dimensions or None,
            truncate=asked.truncate is not False,
            num_ctx=asked.options.num_ctx,
            keep_alive=_keep_alive(asked.keep_alive),
            base64=asked.encoding_format.lower() == "base64",
        )

    def _as(self, kind: type[_Kind]) -> _Kind:
        try:
            return kind.model_validate(self.document)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise errors.Refusal(400, f"json: cannot use the value of {where}: {first['msg']}") from error


def parse(raw: bytes) -> Body:
    """The body as a JSON object, or Ollama's 400. The content type is not looked at, as Ollama does not."""
    if not raw.strip():
        raise errors.Refusal(400, "missing request body")
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise errors.Refusal(400, f"invalid JSON: {error}") from error
    if not isinstance(document, dict):
        raise errors.Refusal(400, "json: cannot unmarshal the body into an object")
    return Body(document)


def _native(asked: _Native, turns: list[Message], load_only: bool) -> Generation:
    return Generation(
        model=_model(asked.model),
        messages=tuple(turns),
        stream=asked.stream is not False,
        format=_format(asked.format),
        num_ctx=asked.options.num_ctx,
        num_predict=asked.options.num_predict,
        stop=tuple(asked.options.stop or ()),
        keep_alive=_keep_alive(asked.keep_alive),
        load_only=load_only,
        think=bool(asked.think),
        truncate=asked.truncate is not False,
    )


def _openai(asked: _OpenAI, turns: list[Message]) -> Generation:
    wanted = asked.response_format or {}
    shape: Format = None
    if wanted.get("type") == "json_object":
        shape = "json"
    elif wanted.get("type") == "json_schema":
        shape = _format((wanted.get("json_schema") or {}).get("schema"))
    stop = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    return Generation(
        model=_model(asked.model),
        messages=tuple(turns),
        stream=asked.stream,
        format=shape,
        num_predict=asked.max_completion_tokens or asked.max_tokens,
        stop=tuple(stop),
        include_usage=asked.stream_options.include_usage,
    )


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document["tools"]) if document.get("tools") else ""


def _model(name: str) -> str:
    if not name.strip():
        raise errors.Refusal(400, "model is required")
    return name


def _format(value: Any) -> Format:
    if value in (None, ""):
        return None
    if value == "json":
        return "json"
    if isinstance(value, dict):
        return value
    raise errors.Refusal(400, f'invalid format: {json.dumps(value)}; expected "json" or a valid JSON Schema object')


def _keep_alive(value: object) -> float | None:
    try:
        return quantity.to_seconds(value)
    except ValueError as error:
        raise errors.Refusal(400, str(error)) from error


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
