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

from kb import errors
from kb.files import image
from kb.visual import embedder, model

_AT_ONCE = 2
_MOST_BYTES = 64 << 20


class Served:
    """Implements `embedder.Port`. `token_file` is read for each call; "" asks without a token.

    `said` stands beside each image, and `before` before each question, as the page of the model says.
    """

    def __init__(
        self,
        url: str,
        name: str,
        http: httpx.AsyncClient,
        *,
        token_file: str = "",
        said: str = "Describe the image.",
        before: str = "",
        patches: embedder.Patches = embedder.Patches(),  # noqa: B008 -- frozen
        page_seconds: float = 120.0,
        query_seconds: float = 5.0,
    ) -> None:
        self._url = f"{url.rstrip('/')}/pooling"
        self._name = name
        self._http = http
        self._token_file = token_file
        self._said = said
        self._before = before
        self._patches = patches
        self._page_seconds = page_seconds
        self._query_seconds = query_seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def name(self) -> str:
        return self._name

    async def embed_pages(self, images: Sequence[bytes]) -> list[model.Embedded]:
        async def one(picture: bytes) -> model.Embedded:
            async with self._slots:
                vectors = await self._ask({"messages": [self._message(picture)]}, self._page_seconds)
            return model.Embedded(vectors, self._patches.grid(picture, len(vectors)))

        return list(await asyncio.gather(*(one(picture) for picture in images)))

    async def embed_query(self, text: str) -> model.Query:
        return model.Query(await self._ask({"input": [f"{self._before}{text}"]}, self._query_seconds))

    def _message(self, picture: bytes) -> dict[str, Any]:
        media_type, _, _ = image.measured(picture)
        url = f"data:{media_type};base64,{base64.b64encode(picture).decode()}"
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
            response = await self._http.post(self._url, content=asked, headers=headers, timeout=seconds)
        except httpx.HTTPError as error:
            raise errors.Away("visual", f"{type(error).__name__}: {error}"[:300]) from error
        said = response.text[:300] if response.status_code != 200 else ""
        if response.status_code in (401, 403, 404, 405):
            raise self._unconfigured(f"it answers {response.status_code}: {said}")
        if response.status_code in (400, 413, 415, 422):
            raise errors.Invalid(f"visual model {self._name!r} does not take it: {said}", field="image")
        if response.status_code != 200 or len(response.content) > _MOST_BYTES:
            raise errors.Away("visual", f"it answers {response.status_code}: {said}", retry_after=5)
        try:
            [given, *_] = orjson.loads(response.content)["data"]
            vectors = given["data"]
        except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
            raise self._unconfigured(f"it does not speak the pooling API: {error!r}"[:300]) from error
        return await asyncio.to_thread(embedder.checked, self._name, vectors)

    def _unconfigured(self, why: str) -> errors.Unconfigured:
        return errors.Unconfigured(
            f"the server of visual model {self._name!r} cannot be used: {why}",
            field="visualUrl",
            remedy="Serve the model with the pooling API (vllm serve MODEL --runner pooling).",
        )
