"""Connections of a mailbox, a tracker and a repository: what was put there arrives by itself, and so does each change.

The servers are those of `hack.demo.servers`, so this part is for the local cluster alone.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from crds import API_VERSION, labels, pendingtask, phases
from hack.demo import errors, expectation, forward, inputs, planted, plugin, servers, settings, stream, submit, watch
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


def authority(pem: str) -> dict[str, Any]:
    """The ConfigMap that `values` names; pods read it when they start."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": AUTHORITY}, "data": {"ca.crt": pem}}


def shown(console: Console, cluster: Kubectl, wanted: settings.Settings, there: servers.Servers, run: str) -> None:
    """Put, connect, ask; change at the sources, ask again. Raises errors.Failure."""
    hashes = plant(there)
    stories = planted.stories()
    console.print(f"\n[bold]what a mailbox and a Gitea bring by themselves[/] ({len(stories)} tasks)")
    selector = connect(cluster, there)
    began = time.monotonic()
    known = arrived(console, cluster, selector, stories, wanted.timeout)
    _until(
        cluster,
        f"git::{planted.REPOSITORY}@",
        lambda found: {one.rpartition("@")[2] for one in found} >= set(hashes),
        wanted,
    )
    _say(console, began, "repository", f"{len(hashes)} commits are known")
    _ask(console, cluster, wanted, run, "on-call", planted.FIRST)

    console.print("\n[bold]the mail is deleted and an issue is edited at their sources[/]")
    change(there)
    began = time.monotonic()
    edited = {planted.urn(1): "the edited issue"}
    arrived(console, cluster, selector, edited, wanted.timeout, known)
    _until(cluster, planted.MAILS[0].urn, lambda found: not found, wanted)
    _say(console, began, "mailbox", "the deleted mail is forgotten")
    _ask(console, cluster, wanted, run, "on-call-again", planted.THEN)


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


def connect(cluster: Kubectl, there: servers.Servers) -> str:
    """Apply the Secrets and the Connections; the selector of the tasks that they will make."""
    cluster.apply(manifests(there))
    return _selector(_uids(cluster))


def manifests(there: servers.Servers) -> list[dict[str, Any]]:
    """Two Secrets and three Connections."""
    return [
        _secret(_MAILBOX, {"username": servers.USER, "password": there.password}),
        _secret(_FORGE, {"token": there.token}),
        _connection("mailbox", "Email", there.mailbox, _MAILBOX),
        _connection("issues", "Gitea", f"{there.forge}/{planted.REPOSITORY}", _FORGE),
        _connection("repository", "Git", f"{there.forge}/{planted.REPOSITORY}.git", _FORGE),
    ]


def change(there: servers.Servers) -> None:
    """Delete a mail and edit an issue, as people do."""
    there.ask("PATCH", f"repos/{planted.REPOSITORY}/issues/1", {"body": planted.CHANGED})
    there.remove(f"<{planted.ON_CALL}>")


def arrived(
    console: Console,
    cluster: Kubectl,
    selector: str,
    stories: Mapping[str, str],
    seconds: float,
    known: Collection[str] = (),
) -> set[str]:
    """Wait until each sourceUrn of `stories` has a task that has ended as it has to, and show them on their way.

    `known` are names of tasks that are none of these; returns their names with those of the new ones. Raises
    errors.Failure.
    """
    began, seen = time.monotonic(), dict[str, pendingtask.PendingTask]()
    for task in stream.tasks(cluster, selector, began + seconds):
        if task is None or task.metadata.name in known:
            continue
        urn, phase = task.spec.source_urn or "", expectation.phase(task)
        if urn not in stories:
            continue
        if urn not in seen or expectation.phase(seen[urn]) != phase:
            at = f"  [{time.monotonic() - began:5.1f}s] {task.metadata.name:<28} {phase:<22} {stories[urn]}"
            console.print(at, markup=False, highlight=False, soft_wrap=True)
        seen[urn] = task
        if len(seen) == len(stories) and all(one.status.phase in expectation.ENDS for one in seen.values()):
            break
    late = [
        f"{story} ({expectation.phase(seen.get(urn))}: {expectation.reason(seen.get(urn))})"
        for urn, story in stories.items()
        if urn not in seen or seen[urn].status.phase not in expectation.ENDS - {phases.Phase.ERROR}
    ]
    if late:
        raise errors.Failure(f"did not arrive: {'; '.join(late)}; kubectl jervis connections says more")
    return {*known, *(one.metadata.name for one in seen.values())}


def _say(console: Console, began: float, connection: str, text: str) -> None:
    at = f"  [{time.monotonic() - began:5.1f}s] {connection:<28} {'':<22} {text}"
    console.print(at, markup=False, highlight=False, soft_wrap=True)


def _until(cluster: Kubectl, source: str, right: Callable[[list[str]], bool], wanted: settings.Settings) -> None:
    deadline = time.monotonic() + wanted.timeout
    with forward.opened(cluster, submit.KB_READ, submit.KB_PORT) as url:
        while not right(found := _documents(cluster, source, url)):
            if time.monotonic() > deadline:
                raise errors.Failure(f"of {source} the knowledge base still has {found or 'nothing'}")
            time.sleep(0.5)


def _ask(console: Console, cluster: Kubectl, wanted: settings.Settings, run: str, name: str, person: str) -> None:
    """`person` is whom the answer has to name."""
    item = inputs.Item(
        name, planted.QUESTION, pendingtask.Type.USER_INPUT, planted.QUESTION,
        frozenset({phases.Phase.COMPLETED}), mode=pendingtask.Mode.FOREGROUND,
    )  # fmt: skip
    submit.apply(cluster, [item], run)
    batch = [expectation.Expectation(submit.name(item, run), item.story, item.expected)]
    seen = watch.shown(console, cluster, submit.selector(run), batch, wanted.timeout)
    if not batch[0].met(seen.get(batch[0].task)):
        raise errors.Failure(f"{batch[0].task}: {expectation.reason(seen.get(batch[0].task)) or 'not answered'}")
    answer = plugin.run(cluster, "result", batch[0].task)
    console.print(answer.rstrip(), markup=False, highlight=False, soft_wrap=True)
    if wanted.simulated and person not in answer:
        raise errors.Failure(f"the answer to {planted.QUESTION!r} does not name {person}")


def _documents(cluster: Kubectl, source: str, url: str) -> list[str]:
    """The sourceUrns that the knowledge base at `url` has and that begin with `source`."""
    owner = ("--client", settings.CLIENT, "--project", settings.PROJECT)
    said = plugin.known(cluster, "documents", "list", *owner, "--source", source, "--url", url, "-o", "json")
    return [one["sourceUrn"] for one in json.loads(said)["documents"]]


def _uids(cluster: Kubectl) -> list[str]:
    return [one["metadata"]["uid"] for one in cluster.items("connections", "-l", f"{settings.LABEL}=true")]


def _selector(uids: list[str]) -> str:
    return f"{labels.CONNECTION_UID} in ({','.join(sorted(uids))})"


def _secret(name: str, content: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": content}


def _connection(name: str, kind: str, url: str, secret: str) -> dict[str, Any]:
    spec = {
        "type": kind,
        "clientId": settings.CLIENT,
        "projectId": settings.PROJECT,
        "url": url,
        "secretRef": {"name": secret},
        "pollInterval": _INTERVAL,
        "rateLimit": {"requestsPerMinute": 600, "burst": 100},
    }
    metadata = {"name": name, "labels": {settings.LABEL: "true"}}
    return {"apiVersion": API_VERSION, "kind": "Connection", "metadata": metadata, "spec": spec}
