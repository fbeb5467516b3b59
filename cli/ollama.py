"""An Ollama server that no installation knows: which of some models it has, and what they can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from cli import errors
from crds import modelcheck, modelnames


def ask(url: str, models: Iterable[str], seconds: float, name: str = "") -> modelcheck.Backend:
    """`url` such as http://gpu-0:11434; `models` are those that are looked at, without aliases. `seconds` bound each
    call.

    Raises `Unusable` for what is no such URL or no Ollama, `Unavailable` when nothing answers.
    """
    import httpx

    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise errors.Unusable(f"{url!r} is no URL.", field="--url", remedy="Give for example http://gpu-0:11434.")
    wanted = {modelnames.normalise(model) for model in models}
    with httpx.Client(base_url=url.rstrip("/"), timeout=seconds, trust_env=False) as http:
        listed = {
            modelnames.normalise(str(one.get("model") or one.get("name") or "")): one
            for one in _document(http, url, "GET", "/api/tags").get("models") or ()
        }
        facts = {
            model: modelcheck.facts(_document(http, url, "POST", "/api/show", {"model": model}))
            for model in sorted(wanted & listed.keys())
        }
    digests = {model: str(record["digest"]) for model, record in listed.items() if "digest" in record}
    return modelcheck.Backend(name or str(urlsplit(url).netloc), frozenset(listed), facts, digests=digests)


def _document(http: Any, url: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    import httpx

    try:
        answer = http.request(method, path, json=body)
        found = answer.json() if answer.status_code == 200 else None
    except httpx.HTTPError as error:
        raise errors.Unavailable(f"No Ollama answers at {url}: {error}.") from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise errors.Unusable(
            f"{url}{path} answered {answer.status_code}, and not as an Ollama server does.",
            field="--url",
            remedy="Give the base URL of an Ollama server, without a path.",
        )
    return found
