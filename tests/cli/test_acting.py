"""Commands that change a task, against a real apiserver: races, rights, refusals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cli import edits, errors, kube
from tests import waiting
from tests.cli import objects, site

pytestmark = pytest.mark.apiserver

ASKS = {
    "phase": "UserTask",
    "attempt": 1,
    "userTask": {"kind": "Question", "questions": objects.QUESTIONS},
}


def grant(place: site.Site, user: str, *verbs: str) -> None:
    """What the chart's aggregated roles give in this namespace: view, and with more verbs edit."""
    from kubernetes import client

    rbac: Any = client.RbacAuthorizationV1Api(place.core.api_client)
    kinds = ["pendingtasks", "connections", "gpubackends"]
    rules = [{"apiGroups": ["jervis.dev"], "resources": kinds, "verbs": ["get", "list", "watch"]}]
    if verbs:
        rules.append({"apiGroups": ["jervis.dev"], "resources": ["pendingtasks"], "verbs": list(verbs)})
    rbac.create_namespaced_role(place.namespace, {"metadata": {"name": user}, "rules": rules})
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    rbac.create_namespaced_role_binding(place.namespace, binding)


def test_two_people_answer_at_once(place: site.Site) -> None:
    place.task("q", {"answers": [{"id": "r1-q2", "text": "the third"}]}, ASKS)
    racers = [place.start("answer", "q", "r1-q1", "C4") for _ in range(2)]
    done = [site.ended(one) for one in racers]
    assert [one.code for one in done] == [0, 0], done
    said = sorted(one.out for one in done)
    assert said == ["pendingtask.jervis.dev/q answered\n", "pendingtask.jervis.dev/q was answered already\n"]
    answers = [(one["id"], one["text"]) for one in place.get("q")["spec"]["answers"]]
    assert answers == [("r1-q2", "the third"), ("r1-q1", "C4")]


def test_answering_on_a_terminal(place: site.Site) -> None:
    place.task("q", {"answers": [{"id": "r1-q1", "text": "C4"}]}, ASKS)
    done = place.typed(b"the third\n", "answer", "q").succeeded()
    assert "[r1-q2] Which disk?" in done.err
    assert done.out == "pendingtask.jervis.dev/q answered\n"
    assert place.get("q")["spec"]["answers"][1] == {"id": "r1-q2", "text": "the third", "author": "admin"}


def test_without_a_terminal_the_text_is_named(place: site.Site, call: site.Call) -> None:
    place.task("q", status=ASKS)
    call("answer", "q", "r1-q2").refused("answer q r1-q2 TEXT")
    mistaken = call("answer", "q", "the third").err
    assert "no open question 'the third'" in mistaken
    assert "r1-q1, r1-q2; the id comes first: kubectl jervis answer q r1-q1 TEXT" in mistaken


def test_rights(place: site.Site, call: site.Call) -> None:
    alice, bob = place.flags(place.user("alice")), place.flags(place.user("bob"))
    grant(place, "alice", "create", "patch")
    grant(place, "bob")
    place.task("plan", status={"phase": "UserTask", "attempt": 3, "userTask": {"kind": "Approval"}})

    refused = call("approve", "plan", flags=bob).refused('User "bob" cannot patch resource')
    remedy = f"Ask an administrator of namespace '{place.namespace}' for the role view (to read) or edit (to act)."
    assert refused.err.splitlines()[-1] == f"  remedy: {remedy}"
    readable = call("queue", "--phase", "UserTask", flags=bob)
    assert readable.out.splitlines()[1].startswith("1   plan")
    call("queue", "-A", flags=bob).refused("at the cluster scope")

    done = call("approve", "plan", "--comment", "go", "-o", "json", flags=alice).succeeded()
    approval = {"verdict": "Approved", "requestId": "run-3", "comment": "go", "author": "alice"}
    assert done.json["spec"]["approval"] == approval == place.get("plan")["spec"]["approval"]


def test_retry(place: site.Site, call: site.Call) -> None:
    place.task("failed", status={"phase": "UserTask", "attempt": 2, "userTask": {"kind": "Failure"}})
    assert call("retry", "failed").out == "pendingtask.jervis.dev/failed will be tried again\n"
    assert place.get("failed")["spec"]["approval"]["verdict"] == "Approved"
    assert call("retry", "failed").out.endswith("was asked to be tried again already\n")
    call("reject", "failed").refused()

    place.task("broken", status={"phase": "Error"}, labels={"jervis.dev/archived": "true", "team": "a"})
    call("retry", "broken").refused("remedy: Make a new task of it with: kubectl jervis retry broken --as broken-again")
    call("retry", "broken", "--as", "broken-again").succeeded()
    made = place.get("broken-again")
    assert made["metadata"]["labels"] == {"team": "a"}
    assert made["spec"] == place.get("broken")["spec"]


def test_prioritize_and_tell(place: site.Site, call: site.Call) -> None:
    place.task("mail")
    moved = call("prioritize", "mail")
    assert moved.out == "pendingtask.jervis.dev/mail now queues at position 1\n"
    assert place.get("mail")["spec"]["queuePosition"] == 1
    assert call("prioritize", "mail", "--position", "1").out.endswith("position 1 already\n")
    call("prioritize", "mail", "--clear").succeeded()
    assert "queuePosition" not in place.get("mail")["spec"]
    call("prioritize", "mail", "--position", "0").refused("  field: spec.queuePosition\n")

    told = call("tell", "mail", "Hurry.", "--id", "m1")
    assert told.out == "pendingtask.jervis.dev/mail message added (m1)\n"
    repeated = call("tell", "mail", "Hurry.", "--id", "m1")
    assert repeated.out == "pendingtask.jervis.dev/mail has the message already (m1)\n"
    call("tell", "mail", "Now.").succeeded()
    messages = place.get("mail")["spec"]["messages"]
    assert [(one["text"], one["author"]) for one in messages] == [("Hurry.", "admin"), ("Now.", "admin")]
    call("tell", "mail", "").refused("  field: spec.messages.text\n")


def test_an_edit_loses_nothing_of_others(place: site.Site) -> None:
    place.task("mail")
    calls = 0
    client = kube.connect(str(place.kubeconfig), None, place.namespace, 10.0)

    def change(raw: Any) -> edits.Patch | None:
        nonlocal calls
        calls += 1
        if calls <= 2:
            # Somebody else is faster, twice.
            other = [{"id": f"other-{number}", "text": "x"} for number in range(calls)]
            place.patch("mail", {"spec": {"messages": other}})
        return edits.say(raw, "mine", "y", "", objects.NOW)

    raw, written = client.edit("mail", change)
    assert written
    assert calls == 3
    assert [one["id"] for one in raw["spec"]["messages"]] == ["other-0", "other-1", "mine"]

    def never(raw: Any) -> edits.Patch | None:
        place.patch("mail", {"metadata": {"annotations": {"n": raw["metadata"]["resourceVersion"]}}})
        return edits.position(raw, 1)

    with pytest.raises(errors.Conflict):
        client.edit("mail", never)
    assert "queuePosition" not in place.get("mail")["spec"]
    client.close()


def test_kubectl_finds_the_plugin(place: site.Site, tmp_path: Path) -> None:
    import subprocess
    import sys

    from hack.cluster import binaries, progress

    plugin = tmp_path / "kubectl-jervis"
    plugin.write_text(f'#!/bin/sh\nPYTHONPATH={site.ROOT} exec {sys.executable} -m cli "$@"\n')
    plugin.chmod(0o755)
    kubectl = binaries.program(binaries.KUBERNETES, "kubectl", progress.Progress())
    done = subprocess.run(
        [kubectl, "jervis", "get", "nobody", "-n", place.namespace],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(place.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=waiting.PATIENCE,
    )
    # The plugin's own exit status and words come through.
    assert done.returncode == 1
    assert 'Error: pendingtasks.jervis.dev "nobody" not found.' in done.stderr
