"""`erase`: the tasks of a scope, and then what the knowledge base keeps of it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from cli.commands import erase as command
from cli.knowledge import erase
from tests.cli import outside, site

pytestmark = pytest.mark.apiserver


@pytest.fixture
def service() -> Iterator[outside.Erasures]:
    with outside.Erasures().in_thread() as server:
        yield server


@pytest.fixture(autouse=True)
def nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty standard input; and no pauses."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.setattr(command, "_PAUSE", 0.0)


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (["--project", "shop"], ["blog", "group", "other", "whole"]),
        (["--group", "retail"], ["blog", "other", "shop", "whole"]),
        ([], ["other"]),
    ],
)
def test_tasks_of_the_scope_go_and_no_others(
    place: site.Site, call: site.Call, service: outside.Erasures, flags: list[str], left: list[str]
) -> None:
    place.task("whole")
    place.task("shop", {"projectId": "shop", "groupId": "retail"})
    place.task("blog", {"projectId": "blog"})
    place.task("group", {"groupId": "retail"})
    place.task("other", {"clientId": "other"})
    given = ["erase", "--client", "acme", "--by", "jana", "--kb", service.url, *flags]
    unasked = call(*given)
    assert (unasked.code, service.asked) == (1, []), "nobody typed the name"
    assert place.names() == ["blog", "group", "other", "shop", "whole"]
    done = call(*given, "--yes")
    assert (done.code, done.out) == (0, "Erased: 2 documents, 1 tasks.\n"), done.err
    assert place.names() == left
    assert f"{5 - len(left)} tasks deleted.\n" in done.err
    [asked] = service.asked
    assert (asked.by, erase.named(asked.scope)) == ("jana", flags[1] if flags else "acme")
    assert call(*given, "--yes").code == 0, "twice is as good"


def test_a_wrong_scope_deletes_nothing(place: site.Site, call: site.Call, service: outside.Erasures) -> None:
    place.task("kept")
    for client, said in (("", "belong to a client"), ("a b", "Invalid client")):
        done = call("erase", "--client", client, "--by", "jana", "--kb", service.url, "--yes").refused()
        assert said in done.err
        assert "  field: --client\n" in done.err
    assert (place.names(), service.asked) == (["kept"], [])


def test_a_task_that_stays_stops_it(place: site.Site, call: site.Call, service: outside.Erasures) -> None:
    place.task("held", finalizers=["example.com/held"])
    given = ["erase", "--client", "acme", "--by", "jana", "--kb", service.url, "--yes", "--timeout", "0"]
    done = call(*given)
    assert (done.code, service.asked) == (75, [])
    assert "'held' among them; nothing else was erased" in done.err
    place.patch("held", {"metadata": {"finalizers": None}})
