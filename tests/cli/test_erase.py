"""`erase`: the tasks of a scope, and then what the knowledge base keeps of it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from aiohttp import web

from cli.commands import erase as command
from cli.knowledge import erase
from kb import api
from tests import httpserver
from tests.cli import site

pytestmark = pytest.mark.apiserver


class Service(httpserver.Server):
    """Does every erasure at once, and remembers it."""

    method = "POST"

    def __init__(self) -> None:
        self.asked: list[api.ErasureDraft] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """POST /api/v1/erasures"""
        draft = api.ErasureDraft.model_validate_json(await request.read())
        self.asked.append(draft)
        done = api.Erasure.model_validate(
            {
                "id": "e1",
                "scope": draft.scope,
                "state": "Done",
                "requestedBy": draft.by,
                "requestedAt": "2026-03-01T00:00:00Z",
                "erased": {"documents": 2, "tasks": 1},
            }
        )
        return httpserver.reply(done.model_dump_json(by_alias=True), 202)


@pytest.fixture
def service() -> Iterator[Service]:
    with Service().in_thread() as server:
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
    place: site.Site, capsys: pytest.CaptureFixture[str], service: Service, flags: list[str], left: list[str]
) -> None:
    place.task("whole")
    place.task("shop", {"projectId": "shop", "groupId": "retail"})
    place.task("blog", {"projectId": "blog"})
    place.task("group", {"groupId": "retail"})
    place.task("other", {"clientId": "other"})
    given = ["erase", "--client", "acme", "--by", "jana", "--kb", service.url, *flags, *place.flags()]
    unasked = site.call(capsys, *given)
    assert (unasked.code, service.asked) == (1, []), "nobody typed the name"
    assert place.names() == ["blog", "group", "other", "shop", "whole"]
    done = site.call(capsys, *given, "--yes")
    assert (done.code, done.out) == (0, "Erased: 2 documents, 1 tasks.\n"), done.err
    assert place.names() == left
    assert f"{5 - len(left)} tasks deleted.\n" in done.err
    [asked] = service.asked
    assert (asked.by, erase.named(asked.scope)) == ("jana", flags[1] if flags else "acme")
    assert site.call(capsys, *given, "--yes").code == 0, "twice is as good"


def test_a_wrong_scope_deletes_nothing(place: site.Site, capsys: pytest.CaptureFixture[str], service: Service) -> None:
    place.task("kept")
    for client, said in (("", "belong to a client"), ("a b", "Invalid client")):
        done = site.call(
            capsys, "erase", "--client", client, "--by", "jana", "--kb", service.url, "--yes", *place.flags()
        )
        assert done.code == 1
        assert said in done.err
        assert "  field: --client\n" in done.err
    assert (place.names(), service.asked) == (["kept"], [])


def test_a_task_that_stays_stops_it(place: site.Site, capsys: pytest.CaptureFixture[str], service: Service) -> None:
    place.task("held", finalizers=["example.com/held"])
    given = ["erase", "--client", "acme", "--by", "jana", "--kb", service.url, "--yes", "--timeout", "0"]
    done = site.call(capsys, *given, *place.flags())
    assert (done.code, service.asked) == (75, [])
    assert "'held' among them; nothing else was erased" in done.err
    place.patch("held", {"metadata": {"finalizers": None}})
