"""A tree is sent in requests that a knowledge base takes, and comes to an end whatever it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from codegraph import api
from kb import client

FILES = {f"{number}.ts": "\0" * 1_000_000 for number in range(6)}
MOST = 16 << 20
"""What a service takes by default (`kb.settings`)."""


def tree(files: Mapping[str, str]) -> api.GitStructure:
    rows = [{"path": path, "blob": "b" * 40, "size": len(text)} for path, text in files.items()]
    scope, repository = {"clientId": "acme"}, {"org": "acme", "name": "shop"}
    sent = {"scope": scope, "repository": repository, "branch": "main", "commit": "a" * 40, "files": rows}
    return api.GitStructure.model_validate(sent)


async def send(
    answers: Callable[[dict[str, Any]], dict[str, Any]],
) -> tuple[api.GitStructureReply, list[dict[str, Any]], list[int]]:
    """What came of it, the bodies of the requests, and their sizes."""
    bodies: list[dict[str, Any]] = []
    sizes: list[int] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        sizes.append(len(request.content))
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json=answers(bodies[-1]))

    async def read(paths: Sequence[str]) -> Mapping[str, str]:
        return {path: FILES[path] for path in paths}

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        return await client.Client("http://kb", http).code.send(tree(FILES), read), bodies, sizes


async def test_contents_that_grow_as_json_fit_into_their_requests() -> None:
    taken: set[str] = set()

    def answers(body: dict[str, Any]) -> dict[str, Any]:
        taken.update(one["path"] for one in body["files"] if "content" in one)
        missing = sorted(FILES.keys() - taken)
        return {"state": "Wanted" if missing else "Done", "missing": missing}

    reply, _, sizes = await send(answers)
    assert reply.state == "Done"
    assert max(sizes) < MOST


async def test_contents_that_are_never_taken_are_left_out_in_the_end() -> None:
    def answers(body: dict[str, Any]) -> dict[str, Any]:
        missing = [one["path"] for one in body["files"] if one["path"] == "3.ts"]
        return {"state": "Wanted" if missing else "Done", "missing": missing}

    reply, bodies, _ = await send(answers)
    assert reply.state == "Done"
    assert len(bodies) == 5
    assert [(one["path"], one["reason"]) for one in bodies[-1]["skipped"]] == [("3.ts", "not-taken")]
