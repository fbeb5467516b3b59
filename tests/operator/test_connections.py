"""A Connection whose Secret comes late, against the real apiserver: its conditions say what is missing, in turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kubernetes import client

from tests.operator.conftest import Space
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]


def reason(space: Space, type_: str) -> str:
    listed = space.get("mailbox", "connections").get("status", {}).get("conditions", ())
    return next((str(one["reason"]) for one in listed if one["type"] == type_), "")


def test_what_is_missing_is_said_until_it_is_there(space: Space, start: Start) -> None:
    spec: dict[str, Any] = {
        "type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mailbox"},
    }  # fmt: skip
    secrets: Any = client.CoreV1Api(space.api)
    with start():
        space.create("connections", "Connection", "mailbox", spec)
        until(lambda: reason(space, "Ready") == "SecretNotFound", "the Secret is missed")
        body = {"metadata": {"name": "mailbox"}, "stringData": {"username": "ada"}}
        secrets.create_namespaced_secret(space.name, body)
        until(lambda: reason(space, "CredentialsValid") == "SecretKeyMissing", "the password is missed")
        secrets.patch_namespaced_secret("mailbox", space.name, {"stringData": {"password": "secret"}})
        until(lambda: reason(space, "CredentialsValid") == "NotTried", "nothing is missed")
        assert "secret" not in str(space.get("mailbox", "connections")["status"])


def test_the_login_of_the_mail_server_has_a_condition_of_its_own(space: Space, start: Start) -> None:
    smtp = {"url": "smtps://mail.example.org", "from": "a@example.org", "secretRef": {"name": "sender"}}
    spec: dict[str, Any] = {
        "type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mailbox"},
        "smtp": smtp,
    }  # fmt: skip
    secrets: Any = client.CoreV1Api(space.api)
    both = {"username": "ada", "password": "secret"}
    with start():
        secrets.create_namespaced_secret(space.name, {"metadata": {"name": "mailbox"}, "stringData": both})
        space.create("connections", "Connection", "mailbox", spec)
        until(lambda: reason(space, "SendingReady") == "SecretNotFound", "the Secret is missed")
        assert reason(space, "CredentialsValid") == "NotTried", "the mailbox is read all the same"
        # The object is looked at again.
        space.edit("mailbox", {"smtp": {**smtp, "secretRef": {"name": "mailbox"}}}, "connections")
        until(lambda: reason(space, "SendingReady") == "NotTried", "nothing is missed")
        space.edit("mailbox", {"smtp": None}, "connections")
        until(lambda: reason(space, "SendingReady") == "", "nothing is sent any more")


def test_an_object_that_cannot_be_parsed_says_so_and_is_served_once_it_can(space: Space, start: Start) -> None:
    spec: dict[str, Any] = {
        "type": "Git", "clientId": "acme", "url": "https://example.org/a.git",
        "filter": {"since": "9999-12-31T00:00:00Z"},
    }  # fmt: skip
    with start():
        space.create("connections", "Connection", "mailbox", spec)
        until(lambda: reason(space, "Ready") == "Unreadable", "it says so")
        (condition,) = space.get("mailbox", "connections")["status"]["conditions"]
        assert condition["status"] == "False"
        assert condition["message"].startswith("Field: spec.filter.since. ")
        version = space.get("mailbox", "connections")["metadata"]["resourceVersion"]
        space.create("connections", "Connection", "other", {**spec, "filter": None})
        until(lambda: "status" in space.get("other", "connections"), "others are served")
        assert space.get("mailbox", "connections")["metadata"]["resourceVersion"] == version, "it is written once"
        space.edit("mailbox", {"filter": None}, "connections")
        until(lambda: reason(space, "Ready") == "PollingNotEnabled", "it is served now")
        space.edit("mailbox", {"filter": {"since": "9999-12-31T00:00:00Z"}}, "connections")
        until(lambda: reason(space, "Ready") == "Unreadable", "and no more")
