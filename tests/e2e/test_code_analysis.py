"""A repository at a real Gitea is analyzed by a Job of a real kubelet, and what it found is in the answers.

JERVIS_TEST_JOERN=1 has Joern in that Job, too; its image has to be built (`make test-thorough`).
"""

from __future__ import annotations

import base64

import httpx

from crds import API_VERSION, conditions
from crds.phases import Phase
from hack.demo import connected, servers, settings
from tests.e2e.conftest import JOERN
from tests.e2e.site import LABEL, SUITE, Site
from tests.joern import tree

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


def test_a_repository_is_analyzed_in_a_job(
    site: Site, owner: str, there: servers.Servers, services: httpx.Client
) -> None:
    owner = f"{owner}-analysis"
    _commit(there)
    of = {"clientId": owner, "projectId": settings.PROJECT}
    manifests = connected.manifests(there, owner)
    secrets = [one for one in manifests if one["kind"] == "Secret"]
    [repository] = [one for one in manifests if one["metadata"]["name"] == "repository"]
    repository["spec"]["url"] = f"{there.forge}/{_NAME}.git"
    analysis = ["Overview", "Structure", *(["Cpg"] if JOERN else [])]
    task = {
        "apiVersion": API_VERSION,
        "kind": "PendingTask",
        "metadata": {"name": "analyze-parts", "labels": {LABEL: "analysis", SUITE: "true"}},
        "spec": {"type": "GitProcessing", **of, "git": {"connection": "repository", "analysis": analysis}},
    }
    site.kubectl.apply([*secrets, repository, task])
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
