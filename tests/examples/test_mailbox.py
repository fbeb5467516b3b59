"""The CronJob of examples/mailbox: its script, against a mailbox and a real apiserver."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tests import httpserver
from tests.conftest import ROOT
from tests.examples.test_examples import EXAMPLES

MAILS = sorted((EXAMPLES / "demo").glob("*.eml"))
DOCUMENTS = list(yaml.safe_load_all((EXAMPLES / "mailbox" / "cronjob.yaml").read_text()))


class Mailbox:
    """As much of IMAP4rev1 (RFC 3501) as the script speaks: LOGIN, SELECT, UID SEARCH UNSEEN, UID FETCH, UID STORE."""

    def __init__(self, mails: list[bytes]) -> None:
        self.port = 0
        self.mails = dict(enumerate(mails, start=1))
        self.seen: set[int] = set()
        self.selected: list[str] = []

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        while raw := await reader.readline():
            tag, _, command = raw.decode().strip().partition(" ")
            lines = self._answer(tag, command)
            writer.write(b"".join(line + b"\r\n" for line in lines))
            if command == "LOGOUT":
                break

    def _answer(self, tag: str, command: str) -> Iterator[bytes]:
        words = command.split()
        if words[0] == "LOGIN" and words[1:] != ["jana", '"secret"']:
            yield f"{tag} NO wrong password".encode()
            return
        if words[0] == "CAPABILITY":
            yield b"* CAPABILITY IMAP4rev1"
        elif words[0] == "SELECT":
            self.selected.append(words[1])
            yield f"* {len(self.mails)} EXISTS".encode()
        elif words[:2] == ["UID", "SEARCH"]:
            unseen = sorted(set(self.mails) - self.seen)
            yield " ".join(["* SEARCH", *map(str, unseen)]).encode()
        elif words[:2] == ["UID", "FETCH"]:
            body = self.mails[int(words[2])]
            yield f"* {words[2]} FETCH (UID {words[2]} BODY[] {{{len(body)}}}".encode()
            yield body + b")"
        elif words[:2] == ["UID", "STORE"]:
            assert words[3:] == ["+FLAGS.SILENT", r"(\Seen)"]
            self.seen.add(int(words[2]))
        yield f"{tag} OK done".encode()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """The demo's mails, unread."""
    server = Mailbox([path.read_bytes() for path in MAILS])
    with httpserver.in_thread(httpserver.tcp(server.converse)) as server.port:
        yield server


def run(mailbox: Mailbox, folder: Path, kubeconfig: str, password: str = "secret") -> subprocess.CompletedProcess[str]:
    """The script as the CronJob runs it, with the command line and the access of this checkout."""
    [script] = [document["data"]["mailbox.py"] for document in DOCUMENTS if document["kind"] == "ConfigMap"]
    program = folder / "mailbox.py"
    program.write_text(script)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": kubeconfig,
        "MAILBOX_URL": f"imap://127.0.0.1:{mailbox.port}/Team",
        "MAILBOX_USER": "jana",
        "MAILBOX_PASSWORD": password,
        "JERVIS_CLIENT": "acme",
    }
    return subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.apiserver
def test_every_mail_becomes_one_task(
    mailbox: Mailbox, tmp_path: Path, kubeconfig: Path, custom_objects: client.CustomObjectsApi
) -> None:
    where = ("jervis.dev", "v1alpha1", "default", "pendingtasks")
    done = run(mailbox, tmp_path, str(kubeconfig))
    assert done.returncode == 0, done.stderr
    assert mailbox.seen == set(mailbox.mails)
    assert mailbox.selected == ["Team"]
    names = set(re.findall(r"^pendingtask\.jervis\.dev/(\S+) created$", done.stdout, re.MULTILINE))
    assert len(names) == len(MAILS)
    for name in names:
        task: Any = custom_objects.get_namespaced_custom_object(*where, name)
        assert (task["spec"]["type"], task["spec"]["clientId"]) == ("EmailProcessing", "acme")

    # Killed before it could mark a mail: the same mail is the same task.
    mailbox.seen.discard(1)
    again = run(mailbox, tmp_path, str(kubeconfig))
    assert again.returncode == 0, again.stderr
    assert "already exists" in again.stdout
    assert mailbox.seen == set(mailbox.mails)
    for name in names:
        custom_objects.delete_namespaced_custom_object(*where, name)


@pytest.mark.apiserver
def test_a_mail_that_is_none_does_not_hold_back_the_others(
    mailbox: Mailbox, tmp_path: Path, kubeconfig: Path, custom_objects: client.CustomObjectsApi
) -> None:
    mailbox.mails[0] = b"\r\n"
    done = run(mailbox, tmp_path, str(kubeconfig))
    assert done.returncode == 1
    assert mailbox.seen == set(mailbox.mails) - {0}
    for name in re.findall(r"^pendingtask\.jervis\.dev/(\S+) created$", done.stdout, re.MULTILINE):
        custom_objects.delete_namespaced_custom_object("jervis.dev", "v1alpha1", "default", "pendingtasks", name)


def test_nothing_is_read_while_the_cluster_is_away(mailbox: Mailbox, tmp_path: Path) -> None:
    away = tmp_path / "kubeconfig"
    away.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    done = run(mailbox, tmp_path, str(away))
    assert done.returncode == 75, done.stderr
    assert mailbox.seen == set()


def test_the_account_may_create_tasks_and_nothing_else() -> None:
    [role] = [document for document in DOCUMENTS if document["kind"] == "Role"]
    assert role["rules"] == [{"apiGroups": ["jervis.dev"], "resources": ["pendingtasks"], "verbs": ["create"]}]
    [job] = [document for document in DOCUMENTS if document["kind"] == "CronJob"]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == role["metadata"]["name"]
    secrets = {
        entry["valueFrom"]["secretKeyRef"]["name"] for entry in pod["containers"][0]["env"] if "valueFrom" in entry
    }
    assert secrets == {"mailbox"}
