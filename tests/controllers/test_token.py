"""The token of a request: asked for now and then, and at once when the apiserver does not know it any more."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

import kube
from kube import client as wire
from tests import httpserver
from tests.kube import apiserver


async def test_a_rotated_token_is_taken_up() -> None:
    now, asked, said = [0.0], 0, "first"
    seen: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.headers["Authorization"], request.headers["Accept-Encoding"]))
        return web.json_response({"metadata": {}}, status=401 if said not in seen[-1][0] else 200)

    def refresh(loaded: Any) -> None:
        nonlocal asked
        asked += 1
        loaded.api_key["BearerToken"] = f"Bearer {said}"

    loaded = apiserver.configuration("")
    loaded.refresh_api_key_hook = refresh
    async with httpserver.serving(answer, method="GET") as loaded.host, kube.session(loaded) as http:
        api = kube.Kube(loaded, http, fence=lambda: None, monotonic=lambda: now[0])
        for _ in range(3):
            await api.get(kube.PODS, "here", "one")
        assert asked == 1
        said = "second"
        with pytest.raises(kube.Unavailable):
            await api.get(kube.PODS, "here", "one")
        await api.get(kube.PODS, "here", "one")
        assert asked == 2, "a 401 is enough"
        now[0] = wire.TOKEN_SECONDS
        await api.get(kube.PODS, "here", "one")
        assert asked == 3
    assert [token for token, _ in seen] == ["Bearer first"] * 4 + ["Bearer second"] * 2
    assert {encoding for _, encoding in seen} == {"identity"}, "nothing is compressed between neighbours"
