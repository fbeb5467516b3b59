"""What tasks say, and what opens doors, stands in no line of the operator's log, however much it logs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kubernetes import client

from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
SAID = [f"quetzal{number}" for number in range(6)]
SECRETS = ["canary-kb-token", "canary-mailbox-password", "canary-old-password"]


def test_neither_content_nor_secrets(space: Space, start: Start, gpu: str) -> None:
    secrets: Any = client.CoreV1Api(space.api)
    body = {"metadata": {"name": "mailbox"}, "stringData": {"username": "ada", "password": SECRETS[2]}}
    secrets.create_namespaced_secret(space.name, body)
    connection = {
        "type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mailbox"},
    }  # fmt: skip
    with Kubelet(space.api, space.name), start(LOG_LEVEL="debug", KB_TOKEN=SECRETS[0]) as operator:
        space.backend(gpu, slots=2)
        space.create("connections", "Connection", "mailbox", connection)
        space.submit("mail", f"ASK {SAID[0]}")
        space.submit("chat", f"{SAID[1]}?", type="UserInputProcessing", mode="Foreground")
        space.submit("bad", f"INVALID {SAID[2]}")
        space.submit("told", f"INFO {SAID[3]}", messages=[{"id": "m1", "text": SAID[4], "at": "2026-03-01T00:00:00Z"}])
        secrets.patch_namespaced_secret("mailbox", space.name, {"stringData": {"password": SECRETS[1]}})
        until(
            lambda: all(phase in ("Completed", "Done", "Error", "UserTask") for phase in space.phases().values()),
            "all have ended",
        )
        log = operator.log.read_text()
    assert '"level": "debug"' in log, "it logs as much as it can"
    found = [line for line in log.splitlines() if any(text in line for text in (*SAID, *SECRETS))]
    assert found == []
