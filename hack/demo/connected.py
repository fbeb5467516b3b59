"""A mailbox, a tracker and a repository with something in them, and the Connections that name them.

The servers are those of `hack.demo.servers`, so this part is for the local cluster alone.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from crds import API_VERSION, labels
from hack.cluster.layout import Layout
from hack.demo import planted, release, servers, settings
from hack.demo.kubectl import Kubectl

AUTHORITY = "demo-authority"
_MAILBOX, _FORGE = "demo-mailbox", "demo-forge"
_INTERVAL = "10s"
_PORTS = [22, 110, 143, 443, 993, 995, servers.HTTPS, 9418]


def values() -> dict[str, Any]:
    """Values of the release: pods trust the servers, the sources process reaches them and may read their Secrets."""
    return {
        "sources": {"enabled": True, "settings": {"sweepSeconds": 5}},
        "rbac": {"connectionSecrets": [_MAILBOX, _FORGE]},
        "caBundle": {"name": AUTHORITY},
        "networkPolicy": {"sources": {"ports": _PORTS}},
    }


def trust(cluster: Kubectl, place: Layout) -> None:
    """Apply the ConfigMap that `values` names, and the namespace that it is in; pods read it when they start."""
    release.namespace(cluster)
    pem = servers.authority(place).pair.certificate.read_text()
    metadata = {"name": AUTHORITY}
    cluster.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": pem}}])


def clear(cluster: Kubectl) -> None:
    """Delete the Connections of earlier runs, and their tasks."""
    if uids := _uids(cluster):
        cluster.run("delete", "connections", "-l", f"{settings.LABEL}=true", seconds=60)
        cluster.run("delete", "pendingtasks", "-l", _selector(uids), "--ignore-not-found", seconds=120)


def plant(there: servers.Servers) -> list[str]:
    """Put everything where it can be found; the hashes of the commits."""
    for mail in planted.MAILS:
        there.put(mail.raw(datetime.now(UTC)))
    name = planted.REPOSITORY.rpartition("/")[2]
    there.ask("POST", "user/repos", {"name": name, "private": True, "default_branch": planted.BRANCH})
    for issue in planted.ISSUES:
        made = there.ask("POST", f"repos/{planted.REPOSITORY}/issues", {"title": issue.title, "body": issue.body})
        there.ask("PATCH", f"repos/{planted.REPOSITORY}/issues/{made['number']}", {"state": "closed"})
    hashes = []
    for path, content, message in planted.COMMITS:
        body = {"content": base64.b64encode(content.encode()).decode(), "message": message, "branch": planted.BRANCH}
        done = there.ask("POST", f"repos/{planted.REPOSITORY}/contents/{path}", body)
        hashes.append(str(done["commit"]["sha"]))
    return hashes


def connect(cluster: Kubectl, there: servers.Servers, client: str) -> str:
    """Apply the Secrets and the Connections; the selector of the tasks that they will make."""
    cluster.apply(manifests(there, client))
    return _selector(_uids(cluster))


def manifests(there: servers.Servers, client: str) -> list[dict[str, Any]]:
    """Two Secrets and three Connections."""
    return [
        _secret(_MAILBOX, {"username": servers.USER, "password": there.password}),
        _secret(_FORGE, {"token": there.token}),
        _connection(client, "mailbox", "Email", there.mailbox, _MAILBOX),
        _connection(client, "issues", "Gitea", f"{there.forge}/{planted.REPOSITORY}", _FORGE),
        _connection(client, "repository", "Git", f"{there.forge}/{planted.REPOSITORY}.git", _FORGE),
    ]


def change(there: servers.Servers) -> None:
    """Delete a mail and edit an issue, as people do."""
    there.ask("PATCH", f"repos/{planted.REPOSITORY}/issues/1", {"body": planted.CHANGED})
    there.remove(f"<{planted.ON_CALL}>")


def _uids(cluster: Kubectl) -> list[str]:
    return [one["metadata"]["uid"] for one in cluster.items("connections", "-l", f"{settings.LABEL}=true")]


def _selector(uids: list[str]) -> str:
    return f"{labels.CONNECTION_UID} in ({','.join(sorted(uids))})"


def _secret(name: str, content: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": content}


def _connection(client: str, name: str, kind: str, url: str, secret: str) -> dict[str, Any]:
    spec = {
        "type": kind,
        "clientId": client,
        "projectId": settings.PROJECT,
        "url": url,
        "secretRef": {"name": secret},
        "pollInterval": _INTERVAL,
        "rateLimit": {"requestsPerMinute": 600, "burst": 100},
    }
    metadata = {"name": name, "labels": {settings.LABEL: "true"}}
    return {"apiVersion": API_VERSION, "kind": "Connection", "metadata": metadata, "spec": spec}
