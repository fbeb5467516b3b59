"""`erase`: the tasks of a scope, and then what the knowledge base keeps of it."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cli.commands import erase as command
from cli.knowledge import erase
from kb import api
from tests.cli import site

pytestmark = pytest.mark.apiserver


class Service(ThreadingHTTPServer):
    """Does every erasure at once, and remembers it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[api.ErasureDraft] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """POST /api/v1/erasures"""

    server: Service

    def do_POST(self) -> None:
        draft = api.ErasureDraft.model_validate_json(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(draft)
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
        body = done.model_dump_json(by_alias=True).encode()
        self.send_response(202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


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
