"""Tasks and documents as the apiserver and the knowledge base hold them: what is compared with the source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from crds import labels
from kb import api
from tests.sources.git.knowledge import Commits

_TOKEN = re.compile(r"t\d{6}x")


def token(number: int) -> str:
    """A word that says which change of the source a text is of."""
    return f"t{number:06d}x"


class Knowledge(Commits):
    """Of two versions of a document the one whose task was created later stays."""

    def __init__(self) -> None:
        super().__init__()
        self._made: Counter[tuple[str, str]] = Counter()
        self._texts: dict[str, tuple[int, str]] = {}

    def held(self) -> dict[str, frozenset[str]]:
        """The tokens of each document by URN; of each commit of each branch, which has none."""
        found = {urn: frozenset(_TOKEN.findall(self._texts[urn][1])) for urn in self.documents}
        commits = {f"{branch}:{sha}": frozenset[str]() for branch, shas in self.branches.items() for sha in shas}
        return found | commits

    def counted(self) -> Iterator[tuple[str, frozenset[str], int]]:
        """URN, tokens, and how many tasks with one and the same content were made."""
        for (urn, text), count in self._made.items():
            yield urn, frozenset(_TOKEN.findall(text)), count

    def _step(self, one: dict[str, Any]) -> None:
        before = one["status"]["phase"]
        super()._step(one)
        if before != "Done" and one["status"]["phase"] == "Done":
            urn = one["spec"]["sourceUrn"]
            said = (int(one["metadata"]["uid"].removeprefix("uid-")), _said(one))
            self._texts[urn] = max(self._texts.get(urn, (-1, "")), said)

    async def _create(self, request: web.Request) -> web.Response:
        answer = await super()._create(request)
        if answer.status == 201:
            raw = await request.json()
            self._made[raw["spec"]["sourceUrn"], _said(raw)] += 1
        return answer

    async def _commits(self, request: web.Request) -> web.Response:
        asked = api.GitCommits.model_validate_json(await request.read())
        have = self.branches.get(f"{asked.scope.project_id}/{asked.branch}", [])
        self.deleted += [f"{asked.scope.project_id}/{asked.branch}:{one}" for one in asked.removed if one in have]
        return await super()._commits(request)


def _said(one: dict[str, Any]) -> str:
    return f"{one['metadata']['annotations'][labels.TITLE]}\n{one['spec'].get('content', '')}"
