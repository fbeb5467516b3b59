"""What is taken out of messages and logs, and what is not."""

from __future__ import annotations

import pytest

from controllers.clusterstate.hiding import Hidden

POD = {
    "containers": [
        {
            "name": "app", "image": "registry.test/app:1", "command": ["/bin/app", "--password=word-of-app"],
            "args": ["--level", "debug", "first-argument"],
            "env": [
                {"name": "A", "value": "value-of-a"}, {"name": "PORT", "value": "8080"},
                {"name": "ON", "value": "true"}, {"name": "SHORT", "value": "abc"}, {"name": "NAME", "value": "app"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
        }
    ],
    "initContainers": [{"name": "init", "image": "i", "env": [{"name": "C", "value": "value-of-init"}]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('exec: "/bin/app": no such file', 'exec: "/bin/app": no such file'),
        ("exec --password=word-of-app first-argument", "exec *** ***"),
        ("got word-of-app and value-of-a and value-of-init", "got *** and *** and ***"),
        ("listens on 8080, true, abc, app", "listens on 8080, true, abc, app"),
        ("DB_PASSWORD=x1 next", "DB_PASSWORD=*** next"),
        ('{"apiToken": "a b c", "n": 1}', '{"apiToken": ***, "n": 1}'),
        ("password: hunter2", "password: ***"),
        ("run --token abcdef --quiet", "run --token *** --quiet"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("mongodb://user:word@db:27017/x", "mongodb://***@db:27017/x"),
        ("is eyJhbGciOiJI.eyJzdWIiOiIx.c2ln ok", "is *** ok"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key *** used"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nafter", "***\nafter"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "***"),
        ('MountVolume.SetUp failed for volume "token" : secret "imap" not found',
         'MountVolume.SetUp failed for volume "token" : secret "imap" not found'),
        ('couldn\'t find key DSN in Secret team-a/db', 'couldn\'t find key DSN in Secret team-a/db'),
        ("red\x1b[31m\x00 tab\tend", "red[31m tab\tend"),
    ],
)  # fmt: skip
def test_values_and_credentials_are_replaced(text: str, shown: str) -> None:
    assert Hidden([POD]).text(text, 500) == shown


def test_what_is_hidden_is_not_cut_open() -> None:
    hidden = Hidden([{"containers": [{"name": "a", "env": [{"name": "A", "value": "secret-value"}]}]}])
    assert hidden.text("xx secret-value", 8) == "xx ***"
    assert hidden.text("0123456789", 5) == "0123…"
    assert hidden.text("0123456789", 5, end=True) == "…6789"
    assert hidden.text(None, 5) == ""
