"""The client's token: read before each call from a file that is renewed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from crds import scope
from kb import client


async def test_a_token_file_is_read_anew_for_each_call(tmp_path: Path) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, content=b"x")

    path = tmp_path / "token"
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        kb_client = client.Client("http://kb", http, client.token_file(str(path)))
        with pytest.raises(client.Unavailable, match="cannot be read"):
            await kb_client.fetch(scope.Scope(client_id="acme"), "key")
        for text in ("first\n", "second", ""):
            path.write_text(text)
            await kb_client.fetch(scope.Scope(client_id="acme"), "key")
        await client.Client("http://kb", http, client.token_file("")).fetch(scope.Scope(client_id="acme"), "key")
        await client.Client("http://kb", http, "fixed").fetch(scope.Scope(client_id="acme"), "key")
    assert seen == ["Bearer first", "Bearer second", None, None, "Bearer fixed"]
