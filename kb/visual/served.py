"""A model that another server runs, by the pooling API of vLLM.

    POST {url}/pooling  {"model": ..., "input": ["a question"]}
    POST {url}/pooling  {"model": ..., "messages": [{"role": "user", "content": [{"type": "image_url", ...}, ...]}]}
    -> {"data": [{"index": 0, "data": [[0.1, ...], ...]}]}

https://docs.vllm.ai/en/latest/models/pooling_models/ ; its example for ColQwen3 is
examples/pooling/token_embed/colqwen3_token_embed_online.py. One vector in the place of a list of vectors is that of a
model with a vector for each page. Any server that speaks this serves.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson

from clients import http
from kb import errors
from kb.files import image
from kb.visual import embedder, model, picture

_AT_ONCE = 2
_MOST_BYTES, _MOST_VECTORS = 64 << 20, 4096
PAGE_SECONDS = 120.0
"""Seconds for an image: a server may load the model first."""
# What is larger is parsed by another thread.
_LARGE = 256 << 10


class Served:
    """Implements `embedder.Port`. `token_file` is read for each call; "" asks without a token.

    `said` stands beside each image, and `before` before each question, as the page of the model says. An image that was
    drawn here is sent with `pixels` at most, 0 for no limit; an uploaded one as it is. `most_bytes` of an answer are
    read, and `page_seconds` and `query_seconds` are for all of a call.
    """

    def __init__(
        self,
        url: str,
        name: str,
        opened: httpx.AsyncClient,
        *,
        token_file: str = "",
        said: str = "Describe the image.",
        before: str = "",
        patches: embedder.Patches = embedder.Patches(),  # noqa: B008 -- frozen
        page_seconds: float = PAGE_SECONDS,
        query_seconds: float = 5.0,
        pixels: int = 0,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._url = f"{url.rstrip('/')}/pooling"
        self._name = name
        self._http = opened
        self._token_file = token_file
        self._said = said
        self._before = before
        self._patches = patches
        self._page_seconds = page_seconds
        self._query_seconds = query_seconds
        self._pixels = pixels
        self._most_bytes = most_bytes
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def name(self) -> str:
        return self._name

    async def embed_pages(self, images: Sequence[bytes]) -> list[model.Embedded]:
        async def one(whole: bytes) -> model.Embedded:
            async with self._slots:
                sent = await asyncio.to_thread(picture.scaled, whole, self._pixels)
                vectors = await self._ask({"messages": [self._message(sent)]}, self._page_seconds)
            if len(vectors) > _MOST_VECTORS:
                said = f"{len(vectors)} vectors, and {_MOST_VECTORS} are kept at most"
                raise errors.Invalid(f"visual model {self._name!r} answers with {said}", field="image")
            return model.Embedded(vectors, self._patches.grid(sent, len(vectors)))

        # All of them end before an error is raised: who asks again must not compete with what was left behind.
        made = await asyncio.gather(*(one(whole) for whole in images), return_exceptions=True)
        for failed in made:
            if isinstance(failed, BaseException):
                raise failed
        return [one for one in made if not isinstance(one, BaseException)]

    async def embed_query(self, text: str) -> model.Query:
        return model.Query(await self._ask({"input": [f"{self._before}{text}"]}, self._query_seconds))

    def _message(self, sent: bytes) -> dict[str, Any]:
        media_type, _, _ = image.measured(sent)
        url = f"data:{media_type};base64,{base64.b64encode(sent).decode()}"
        content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}}]
        if self._said:
            content.append({"type": "text", "text": self._said})
        return {"role": "user", "content": content}

    async def _ask(self, body: dict[str, Any], seconds: float) -> model.Array:
        headers = {"Content-Type": "application/json"}
        if self._token_file:
            try:
                token = await asyncio.to_thread(Path(self._token_file).read_text)
            except OSError as error:
                raise self._unconfigured(f"its token cannot be read: {error}") from error
            headers["Authorization"] = f"Bearer {token.strip()}"
        asked = orjson.dumps({"model": self._name, "encoding_format": "float", **body})
        try:
            # Of the whole call: httpx counts the time between two pieces.
            async with asyncio.timeout(seconds):
                status, answered = await self._answer(asked, headers, seconds)
        except TimeoutError as error:
            raise errors.Away("visual", f"it has no answer within {seconds:g} seconds") from error
        except http.TooLarge as error:
            raise errors.Invalid(f"visual model {self._name!r}: {error}", field="image") from error
        except httpx.HTTPError as error:
            raise errors.Away("visual", f"{type(error).__name__}: {error}"[:300]) from error
        said = answered[:300].decode(errors="replace")
        if status in (401, 403, 404, 405):
            raise self._unconfigured(f"it answers {status}: {said}")
        if status in (400, 413, 415, 422):
            raise errors.Invalid(f"visual model {self._name!r} does not take it: {said}", field="image")
        if status != 200:
            raise errors.Away("visual", f"it answers {status}: {said}", retry_after=5)
        try:
            large = len(answered) > _LARGE
            parsed = await asyncio.to_thread(orjson.loads, answered) if large else orjson.loads(answered)
            [given, *_] = parsed["data"]
            vectors = given["data"]
        except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
            raise self._unconfigured(f"it does not speak the pooling API: {error!r}"[:300]) from error
        return await asyncio.to_thread(embedder.checked, self._name, vectors)

    async def _answer(self, asked: bytes, headers: dict[str, str], seconds: float) -> tuple[int, bytes]:
        """The status and the body. Raises `http.TooLarge`."""
        async with self._http.stream("POST", self._url, content=asked, headers=headers, timeout=seconds) as response:
            return response.status_code, await http.read(response, self._most_bytes)

    def _unconfigured(self, why: str) -> errors.Unconfigured:
        return errors.Unconfigured(
            f"the server of visual model {self._name!r} cannot be used: {why}",
            field="visualUrl",
            remedy="Serve the model with the pooling API (vllm serve MODEL --runner pooling).",
        )
