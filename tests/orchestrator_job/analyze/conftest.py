"""A knowledge base with its code graph behind a socket, and the smart HTTP of a sources process before a repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from clients import mongo
from codegraph.branch import analyst
from codegraph.extract import budget
from contracts.tokens import runtoken
from crds import connection
from kb import client
from kb import metrics as kb_metrics
from kb import mongo as kb_mongo
from kb.code import book, history, service
from kb.ingest import lanes
from kb.service.access import rates
from kb.service.http import access, structures
from kb.service.http import code as code_http
from sources import metrics
from sources.core import assignments, limits, repositories
from sources.providers.git import clone, command, reading
from sources.providers.git import polling as git
from tests.joern import tree
from tests.kb import clock as clocks
from tests.kb import world
from tests.kb.conftest import clock, database, meters, router
from tests.kb.ingest import trees
from tests.kb.service import whole
from tests.sources.api.serving import KEYS, NOW, run_token, serving
from tests.sources.git.making import Repository

__all__ = ["clock", "database", "kb", "meters", "router"]
kb = trees.kb
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Base:
    """The knowledge base: where it listens, and its client."""

    url: str
    typed: client.Client


@pytest.fixture
async def base(
    kb: world.ObservedState, meters: kb_metrics.Metrics, clock: clocks.Clock, database: kb_mongo.Database
) -> AsyncIterator[Base]:
    analysts = analyst.Analyst()
    known = book.Book(database, clock)
    works = structures.Structures(kb.pipeline.structures(known, analysts, budget.Budget()), lanes.Lanes(meters))
    asks = service.Questions(known, analysts)
    more = [*works.routes(), *code_http.Code(asks, history.History(asks, kb.graph)).routes()]
    verifier = runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.KNOWLEDGE_BASE)
    gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0, None, verifier)
    async with whole.over(kb, meters, clock, more=more, ingests=True, gate=gate) as (typed, raw):
        yield Base(str(raw.base_url).rstrip("/"), typed)
    analysts.close()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The tree of `tests.joern`, in two commits."""
    one = Repository(tmp_path / "srv" / "acme" / "shop.git")
    one.commit("First", {"README.md": b"# Shop\n\nShapes and their areas.\n"})
    one.commit("Shapes", {path: text.encode() for path, text in tree.FILES.items()})
    return one


@pytest.fixture
async def sources(repository: Repository, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a sources process that reads the repository by the Connection `code`."""
    opened = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    name = f"jervis_analyze_{os.getpid()}"
    assigned = assignments.Assignments(opened[name])
    said = {"type": "Git", "clientId": "acme", "projectId": "apollo", "url": repository.url}
    meta = {"name": "code", "namespace": "team-a", "uid": "uid-code", "generation": 1}
    await assigned.want(connection.Connection.model_validate({"metadata": meta, "spec": said}))
    workspace = clone.Workspace(tmp_path / "ws", 1 << 30, 1 << 30)

    async def opens(claim: assignments.Claim) -> git.Repository:
        at = command.remote(claim.spec.url, {}, plain=False, authorities="", seconds=60)
        bucket = limits.Bucket(6000, 1000)
        return git.Repository(workspace.clone(claim.uid), at, claim.spec, bucket, monotonic=time.monotonic)

    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    made = reading.Reading(assigned, workspace, opens, measured, width=4, seconds=60.0, wall=lambda: NOW)
    async with serving(made.served, max_body=4 << 20) as found:
        yield str(found.base_url).rstrip("/")
    await opened.drop_database(name)
    opened.close()


@dataclass(frozen=True)
class Pod:
    """The work volume and the containers of one pod, each a process of its own; `token` is that of its Job."""

    work: Path
    token: str

    @property
    def left(self) -> Path:
        """Where Joern leaves what it found."""
        (self.work / ".jervis").mkdir(exist_ok=True)
        return self.work / ".jervis"

    def run(self, step: str, values: Mapping[str, str]) -> tuple[int, dict[str, Any], str]:
        """The exit status, the termination message, and what was printed."""
        log, token = self.work.parent / "termination", self.work.parent / "token"
        log.write_bytes(b"")
        if not token.exists():
            token.write_text(self.token)
        given = {"TOKEN_FILE": str(token), "WORK": str(self.work), "TERMINATION_LOG": str(log), "SECONDS": "30"}
        named = {f"JERVIS_ANALYZE_{name}": value for name, value in (given | dict(values)).items()}
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator_job.analyze", step],
            cwd=_ROOT, env=os.environ | named, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        said = log.read_bytes()
        assert len(said) <= 4096
        return done.returncode, json.loads(said) if said else {}, done.stderr


def job_token(repository: str) -> str:
    """Of a Job that analyzes it."""
    return run_token(audience=runtoken.ANALYSIS_AUDIENCE, repository=repository)


@pytest.fixture
def pod(tmp_path: Path, repository: Repository) -> Pod:
    (tmp_path / "pod/work").mkdir(parents=True)
    return Pod(tmp_path / "pod/work", job_token(repositories.of(repository.url).path))
