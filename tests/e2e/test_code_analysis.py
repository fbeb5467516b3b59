"""A repository at a real Gitea is analyzed by a Job of a real kubelet, and what it found is in the answers.

JERVIS_TEST_JOERN=1 has Joern in that Job, too; its image has to be built (`make test-thorough`).
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from crds import API_VERSION, conditions
from crds.phases import Phase
from hack.demo import connected, forward, servers, settings
from tests import thorough
from tests.e2e import tokens
from tests.e2e.conftest import JOERN
from tests.e2e.site import LABEL, SUITE, Site
from tests.joern import tree

pytestmark = thorough.only

_NAME = "platform/parts"
_READ = "/jervis-kb-read:8080/proxy"


def _commit(there: servers.Servers) -> None:
    """All files of the tree as one commit."""
    there.ask("POST", "user/repos", {"name": "parts", "private": True, "default_branch": "main", "auto_init": True})
    files = [
        {"operation": "create", "path": path, "content": base64.b64encode(text.encode()).decode()}
        for path, text in tree.FILES.items()
    ]
    there.ask("POST", f"repos/{_NAME}/contents", {"branch": "main", "message": "Add the parts", "files": files})


def _repository(there: servers.Servers, owner: str) -> list[dict[str, Any]]:
    """The Connection `repository` of the owner's project, and its Secrets."""
    manifests = connected.manifests(there, owner)
    secrets = [one for one in manifests if one["kind"] == "Secret"]
    [repository] = [one for one in manifests if one["metadata"]["name"] == "repository"]
    repository["spec"]["url"] = f"{there.forge}/{_NAME}.git"
    return [*secrets, repository]


def test_a_repository_is_analyzed_in_a_job(
    site: Site, owner: str, there: servers.Servers, services: httpx.Client
) -> None:
    owner = f"{owner}-analysis"
    _commit(there)
    of = {"clientId": owner, "projectId": settings.PROJECT}
    analysis = ["Overview", "Structure", *(["Cpg"] if JOERN else [])]
    task = {
        "apiVersion": API_VERSION,
        "kind": "PendingTask",
        "metadata": {"name": "analyze-parts", "labels": {LABEL: "analysis", SUITE: "true"}},
        "spec": {"type": "GitProcessing", **of, "git": {"connection": "repository", "analysis": analysis}},
    }
    site.kubectl.apply([*_repository(there, owner), task])
    ended = site.ends("analysis", {"analyze-parts": {Phase.DONE, Phase.COMPLETED}}, seconds=400)["analyze-parts"]
    found = conditions.find(ended.status.conditions, "CodeAnalyzed")
    git = ended.status.git
    assert found is not None
    assert git is not None
    assert (found.status, found.reason) == ("True", "Succeeded"), found.message
    assert (git.repository, git.branch) == (_NAME, "main")
    assert git.overview is not None
    assert git.files == len(tree.FILES)
    # None where the Connection was faster than the Job.
    assert git.symbols is None or git.symbols > len(tree.FILES), git
    assert [bool(one) for one in (git.methods, git.calls, git.skipped_languages)] == [JOERN] * 3, git
    # Of C the structure knows no calls: this one is Joern's.
    asked = {"scope": of, "repository": _NAME, "symbol": "shape_area" if JOERN else "pkg/shape.py:squared"}
    answer = services.post(f"{_READ}/api/v1/code/callers", json=asked)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert [(one["caller"]["name"], one["rule"]) for one in said["calls"]] == (
        [("main", "joern")] if JOERN else [("area", "local")]
    ), said
    assert said["coverage"]["analysed"] == (git.commit if JOERN else "")
    assert said["coverage"]["commit"] == git.commit


@pytest.fixture
def token(site: Site, owner: str) -> Iterator[str]:
    """Opens the scope of the owner's queries, while the release runs them."""
    opens = "of-the-client-of-this-test"
    site.kubectl.apply(tokens.secrets({opens: f"{owner}-queries"}))
    named = {kind: one["name"] for kind, one in tokens.VALUES.items()}
    site.upgrade("joern.adHocQueries=true", *(f"kb.tokens.{kind}.name={name}" for kind, name in named.items()))
    yield opens
    site.upgrade("joern.adHocQueries=false", *(f"kb.tokens.{kind}.name=" for kind in named))


@pytest.mark.skipif(not JOERN, reason="a query of Joern: see make test-thorough")
def test_a_query_is_answered_by_a_job(site: Site, owner: str, there: servers.Servers, token: str) -> None:
    _commit(there)
    site.kubectl.apply(_repository(there, f"{owner}-queries"))
    site.kubectl.run("wait", "--for=condition=WorkspaceReady", "connection/repository", "--timeout=180s", seconds=200)
    with forward.opened(site.kubectl, "jervis-kb-write", 8080) as url:

        def ask(query: str, with_token: str = token) -> subprocess.CompletedProcess[str]:
            of = ["--connection=repository", f"--namespace={site.kubectl.namespace}", f"--client={owner}-queries"]
            of += [f"--project={settings.PROJECT}", f"--url={url}", f"--token={with_token}"]
            command = [sys.executable, "-m", "cli.knowledge", "code", "query", query, *of]
            return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)

        callers = ask('cpg.method.name("shape_area").caller.name.l')
        wrong = ask("cpg.method.nonsense")
        refused = ask("cpg.method.name.l", with_token="of-another")
    assert callers.returncode == 0, callers.stderr
    assert "main" in callers.stdout
    assert wrong.returncode == 1
    assert "InvalidQuery" in wrong.stderr
    assert refused.returncode == 1
    assert "401" in refused.stderr or "token" in refused.stderr, refused.stderr
