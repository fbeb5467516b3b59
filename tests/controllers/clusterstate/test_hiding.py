"""What is taken out of messages and logs, and what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from controllers.clusterstate import hiding
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
        ("\x1b[36mdb_password\x1b[0m=\x1b[35mhunter2\x1b[0m next", "db_password=*** next"),
        ("mongodb://user:w@rd@db:27017/x", "mongodb://***@db:27017/x"),
        ("über/eghp_aaaaaaaaaaaaaaaaaaaaaaaa éghp_aaaaaaaaaaaaaaaaaaaaaaaa", "über/eghp_aaaaaaaaaaaaaaaaaaaaaaaa é***"),
        ('password: "not closed', "password: ***"),
        ("abc\n-----END PRIVATE KEY-----\nafter", "***\nafter"),
        ("x" * 300 + "_password=hunter2", "x" * 300 + "_password=***"),
        ("red\x1b[31m\x00 tab\tend", "red tab\tend"),
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


@pytest.mark.parametrize("end", [False, True])
def test_a_value_that_the_cut_goes_through_is_hidden(end: bool) -> None:
    known = "vvvvv" * 100
    hidden = Hidden([{"containers": [{"name": "a", "env": [{"name": "A", "value": known}]}]}])
    key = "-----BEGIN PRIVATE KEY-----\n" + "k" * 1000 + "\n-----END PRIVATE KEY-----"
    for secret in (known, "password=" + "p" * 900, "Bearer " + "b" * 900, key):
        around = "x " * 20_000
        text = f"{around}{secret}  {around}"
        for inside in (1, len(secret) // 2, len(secret) - 1):
            shown = hidden.text(text, len(around) + inside, end=end)
            assert not {"kkk", "ppp", "bbb", "vvv"} & {shown[at : at + 3] for at in range(len(shown))}
            assert (len(shown) <= len(around) + inside, shown.count("x ") > 19_000) == (True, True)


def test_a_word_whose_beginning_is_not_looked_at_is_not_shown() -> None:
    text = "password=" + "p" * 200_000 + " after"
    assert Hidden([]).text(text, 500, end=True) == "…*** after"


def test_more_values_than_can_be_looked_for_show_no_text() -> None:
    def made(count: int) -> Hidden:
        env = [{"name": "A", "value": f"value-{at}"} for at in range(count)]
        return Hidden([{"containers": [{"name": "a", "env": env}]}])

    most = made(hiding.MOST_VALUES)
    assert (most.full, most.text("a value-7 b", 100)) == (False, "a *** b")
    more = made(hiding.MOST_VALUES + 1)
    assert (more.full, more.text("a value-7 b", 100)) == (True, "")
    env = [{"name": "A", "value": "x" * (hiding.MOST_CHARS + 1)}]
    assert Hidden([{"containers": [{"name": "a", "env": env}]}]).full


HOSTILE = (
    "a", "-", "x.", "password", "eyJaaaaaaaa.", "eyJaaaaaaaa-", "--password ", "--token", "password=", 'password: "',
    'password="\\', "'", "://", "://a:", "://:", "bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----", "-----END A", " ", "\x1b[", "\u202e", "é", "glpat-", "\n", "a=", "a ", "password='",
)  # fmt: skip


FILTERED = """
import sys
from controllers.clusterstate.hiding import Hidden
for unit in sys.argv[1:]:
    text = (unit * (256 << 10))[: 256 << 10]
    Hidden([]).text(text, len(text) + 1)
    print(len(Hidden([]).text(text, 12_000, end=True)) <= 12_000)
"""


def test_no_text_takes_long() -> None:
    # In a process that can be ended: a pattern that is quadratic takes minutes for one of them.
    done = subprocess.run(
        [sys.executable, "-c", FILTERED, *HOSTILE], timeout=60, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"] * len(HOSTILE)
