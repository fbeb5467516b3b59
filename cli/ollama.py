"""An Ollama server that no installation knows: which of some models it has, and what they can do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cli import errors
from crds import modelcheck, modelnames

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = 16 << 20
"""Of an answer: a model's template and license are in what `/api/show` says."""


def ask(url: str, models: Iterable[str], seconds: float, name: str = "") -> modelcheck.Backend:
    """`url` such as http://gpu-0:11434; `models` are those that are looked at, without aliases. `seconds` bound each
    call.

    Raises `Unusable` for what is no such URL or no Ollama, `Unavailable` when nothing answers.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise errors.Unusable(f"{url!r} is no URL.", field="--url", remedy="Give for example http://gpu-0:11434.")
    listed, facts = asyncio.run(_asked(url, {modelnames.normalise(model) for model in models}, seconds))
    digests = {model: str(record["digest"]) for model, record in listed.items() if "digest" in record}
    return modelcheck.Backend(name or str(urlsplit(url).netloc), frozenset(listed), facts, digests=digests)


async def _asked(
    url: str, wanted: Collection[str], seconds: float
) -> tuple[dict[str, dict[str, Any]], dict[str, modelcheck.Facts]]:
    from clients import http, tls_trust

    async with http.client(tls=tls_trust.context(), seconds=seconds, base_url=url.rstrip("/")) as opened:
        tags = await _document(opened, url, "GET", "/api/tags")
        listed = {
            modelnames.normalise(str(record.get("model") or record.get("name") or "")): record
            for record in tags.get("models") or ()
        }
        facts = {
            model: modelcheck.facts(await _document(opened, url, "POST", "/api/show", {"model": model}))
            for model in sorted(set(wanted) & listed.keys())
        }
    return listed, facts


async def _document(opened: httpx.AsyncClient, url: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    import httpx

    from clients import http

    try:
        async with opened.stream(method, path, json=body) as answer:
            document = json.loads(await http.read(answer, _MOST_BYTES)) if answer.status_code == 200 else None
    except httpx.HTTPError as error:
        raise errors.Unavailable(f"No Ollama answers at {url}: {error}.") from error
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise errors.Unusable(
            f"{url}{path} answered {answer.status_code}, and not as an Ollama server does.",
            field="--url",
            remedy="Give the base URL of an Ollama server, without a path.",
        )
    return document
