"""The wires around the sources process for repositories: apiserver and knowledge base of `World`, and commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import web

from codegraph import api as code_api
from crds.access import Access
from kb import api
from tests.sources.model import World

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


def kubeconfig(folder: Path, url: str = "http://127.0.0.1:1") -> Path:
    """A file by which a process finds the apiserver at `url`, or one that is away."""
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.format(url=url))
    return path


class Commits(World):
    """`branches` has the commits of each branch of each scope, in order of their arrival; `sent` every one that came.
    `answers`: results of the next requests instead of Stored; each is (result, retryable)."""

    def __init__(self) -> None:
        super().__init__()
        self.branches: dict[str, list[str]] = {}
        self.sent: list[str] = []
        self.answers: list[tuple[str, bool]] = []
        self.largest = 0
        self.access: dict[str, Access | None] = {}
        """Who may see a commit, as it was told last."""
        self.trees: dict[str, tuple[str, dict[str, str]]] = {}
        """Of each branch of each scope the commit, and the texts of its source files."""
        self.contents: dict[str, str] = {}
        self.poison: set[str] = set()
        """Commits for which a request is refused."""

    def application(self) -> web.Application:
        made = super().application()
        made.router.add_post("/api/v1/ingest/git-commits", self._commits)
        made.router.add_post("/api/v1/ingest/git-structure", self._structure)
        made.router.add_post("/api/v1/content", self._content)
        return made

    async def _commits(self, request: web.Request) -> web.Response:
        if refusal := self.outrun(request.headers.get(api.OBSERVATION)):
            return refusal
        raw = await request.read()
        self.largest = max(self.largest, len(raw))
        asked = api.GitCommits.model_validate_json(raw)
        if self.poison & {one.hash for one in asked.commits}:
            problem = {"code": "invalid", "message": "commits.0: this is no usable commit", "field": "commits.0"}
            return web.json_response({"error": problem}, status=422)
        result, retryable = self.answers.pop(0) if self.answers else ("Stored", False)
        have = self.branches.setdefault(f"{asked.scope.project_id}/{asked.branch}", [])
        if result == "Stored":
            self.sent += [one.hash for one in asked.commits]
            self.access |= {one.hash: asked.access for one in asked.commits}
            have += [one.hash for one in asked.commits if one.hash not in have]
            have[:] = [one for one in have if one not in asked.removed]
        outcomes: list[dict[str, Any]] = [
            {"hash": one, "sourceUrn": asked.repository.source_urn(one), "result": result, "retryable": retryable}
            for one in (*(commit.hash for commit in asked.commits), *asked.removed)
        ]
        return web.json_response({"outcomes": outcomes})

    async def _structure(self, request: web.Request) -> web.Response:
        """Asks for every content that it has not got, as the knowledge base does."""
        if refusal := self.outrun(request.headers.get(api.OBSERVATION)):
            return refusal
        asked = code_api.GitStructure.model_validate_json(await request.read())
        key = f"{asked.scope.project_id}/{asked.branch}"
        if asked.removed:
            self.trees.pop(key, None)
            return web.json_response({"state": "Done"})
        self.contents |= {one.blob: one.content for one in asked.files if one.content is not None}
        missing = [one.path for one in asked.files if one.blob not in self.contents]
        if missing:
            return web.json_response({"state": "Wanted", "missing": missing})
        self.trees[key] = (asked.commit or "", {one.path: self.contents[one.blob] for one in asked.files})
        return web.json_response({"state": "Done", "commit": asked.commit, "files": len(asked.files)})

    async def _content(self, request: web.Request) -> web.Response:
        size = len(await request.read())
        return web.json_response({"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": size}, status=201)
