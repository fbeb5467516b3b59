"""A run's token is good for as long as the run: what the operator tells the services, through a task's whole life."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crds import liveruns, runtoken
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
_SECRET = "signing-" * 8  # of this test's operators


@pytest.fixture(name="keys")
def _keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "signing").write_text(_SECRET)
    return folder


def heard(operator: Operator) -> liveruns.Live:
    answer = operator.history(liveruns.PATH, "")
    assert answer.status_code == 200, answer.text
    return liveruns.parse(answer.text, runtoken.ring([_SECRET.encode()]))


def test_it_is_listed_while_it_runs_and_no_longer(space: Space, start: Start, gpu: str, keys: Path) -> None:
    with Kubelet(space.api, space.name, lambda *_: None):
        with start(RUN_TOKEN_KEYS=keys) as operator:
            space.backend(gpu, slots=2)
            uids = {name: str(space.submit(name)["metadata"]["uid"]) for name in ("mail", "other")}
            until(lambda: heard(operator).runs == dict.fromkeys(uids.values(), 1), "both run")
            space.edit("mail", {"suspend": True})
            until(lambda: heard(operator).stopped == {uids["mail"]}, "it is suspended")
            assert heard(operator).runs == {uids["other"]: 1}
            with start(RUN_TOKEN_KEYS=keys) as second:
                until(lambda: second.history("/api/v1/queue", space.ticket()).status_code == 200, "it has read all")
                assert second.history(liveruns.PATH, "").status_code == 503, "it does not lead"
            space.edit("mail", {"suspend": False})
            until(lambda: heard(operator).runs.get(uids["mail"]) == 1, "it goes on as the same attempt")
            operator.kill()
        with start(RUN_TOKEN_KEYS=keys) as operator:
            until(lambda: operator.history(liveruns.PATH, "").status_code == 200, "the next one leads")
            assert heard(operator).runs == dict.fromkeys(uids.values(), 1), "nothing of it is stored"
            assert (datetime.now(UTC) - heard(operator).as_of).total_seconds() < liveruns.SILENT_SECONDS
            space.delete("mail")
            until(lambda: heard(operator).runs == {uids["other"]: 1}, "it was deleted")
            assert heard(operator).stopped == frozenset()


def test_without_keys_there_is_no_list(start: Start) -> None:
    with start() as operator:
        assert operator.history(liveruns.PATH, "").status_code == 404
