"""One verb on many tasks, against a real apiserver: which ones, how many at once, what fails, and the exit status."""

from __future__ import annotations

from typing import Any

import pytest

from cli import complete, kube
from tests.cli import site
from tests.cli.test_acting import grant

pytestmark = pytest.mark.apiserver

FAILED = {"phase": "UserTask", "attempt": 1, "userTask": {"kind": "Failure"}}
WANTS = {"phase": "UserTask", "attempt": 1, "userTask": {"kind": "Approval"}}
ASKS = {"phase": "UserTask", "attempt": 1, "userTask": {"kind": "Question", "questions": [{"id": "q", "text": "?"}]}}


def verdicts(place: site.Site) -> dict[str, str]:
    """Verdict of each task that has one."""
    raws = [place.get(name) for name in place.names()]
    return {raw["metadata"]["name"]: raw["spec"]["approval"]["verdict"] for raw in raws if "approval" in raw["spec"]}


def test_a_backlog_of_failures_is_retried_by_one_command(place: site.Site, call: site.Call) -> None:
    for number in range(12):
        place.task(f"mail-{number:02}", status=FAILED)
    place.task("other", {"clientId": "beta"}, FAILED)
    place.task("asks", status=ASKS)
    place.task("wants", status=WANTS)
    place.task("running", status={"phase": "Orchestrating", "attempt": 1})
    done = call("retry", "--client", "acme", "--yes").succeeded()
    assert sorted(done.out.splitlines()) == [
        f"pendingtask.jervis.dev/mail-{number:02} will be tried again" for number in range(12)
    ]
    # What asks something else is left alone.
    assert done.err.splitlines()[-1] == "12 changed, 0 unchanged, 2 skipped, 0 failed."
    assert set(verdicts(place)) == {f"mail-{number:02}" for number in range(12)}
    again = call("retry", "--client", "acme", "--yes")
    assert (again.code, again.err.splitlines()[-1]) == (0, "0 changed, 12 unchanged, 2 skipped, 0 failed.")


def test_selected_approvals_leave_failures_alone(place: site.Site, call: site.Call) -> None:
    place.task("one", status=WANTS, labels={"batch": "7"})
    place.task("two", status=WANTS, labels={"batch": "8"})
    place.task("broken", status=FAILED, labels={"batch": "7"})
    call("approve", "-l", "batch=7", "--yes", "-m", "all of them").succeeded()
    assert verdicts(place) == {"one": "Approved"}
    assert place.get("one")["spec"]["approval"]["comment"] == "all of them"
    done = call("reject", "--all", "--yes", "-o", "json")
    # The first was decided already, the other way.
    assert verdicts(place) == {"one": "Approved", "two": "Rejected"}
    assert [raw["metadata"]["name"] for raw in done.json["items"]] == ["two"]
    assert (done.json["failed"], done.json["skipped"]) == ([], 2)


def test_several_names_and_the_exit_status_of_a_failure(place: site.Site, call: site.Call) -> None:
    place.task("a", status=FAILED)
    place.task("b", status={"phase": "Done"})
    done = call("retry", "a", "nobody", "b").refused()
    assert done.out == "pendingtask.jervis.dev/a will be tried again\n"
    first, second, last = done.err.splitlines()
    assert first.startswith("Error: b: PendingTask 'b' has ended in Done")
    assert second.startswith('Error: nobody: pendingtasks.jervis.dev "nobody" not found')
    assert last == "1 changed, 0 unchanged, 0 skipped, 2 failed."


def test_what_is_only_busy_has_a_status_of_its_own(
    place: site.Site, call: site.Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        place.task(name, status=FAILED)
    # No try at all: as if each had changed under the hands of the command.
    monkeypatch.setattr(kube, "_TRIES", 0)
    done = call("retry", "--all", "--yes")
    assert (done.code, done.err.splitlines()[-1]) == (75, "0 changed, 0 unchanged, 0 skipped, 2 failed.")


def test_a_selection_is_confirmed_with_its_number(place: site.Site) -> None:
    for name in ("a", "b", "c"):
        place.task(name)
    place.run("delete", "--all").refused(
        f"Delete 3 tasks of namespace {place.namespace}?", "  remedy: Confirm it with --yes.\n"
    )
    for word, code, left in ((b"n\n", 1, ["a", "b", "c"]), (b"y\n", 0, [])):
        place.typed(word, "delete", "--all").refused("Delete 3 tasks", code=code)
        assert place.names() == left


def test_tasks_are_held_let_go_moved_and_deleted(place: site.Site, call: site.Call) -> None:
    place.task("mail", status={"phase": "ReadyForGpu"})
    place.task("wiki", {"type": "WikiProcessing"}, {"phase": "ReadyForGpu"})
    place.task("over", {"type": "WikiProcessing"}, {"phase": "Done"})

    def wiki(*words: str) -> str:
        done = call(*words, "--field-selector", "spec.type=WikiProcessing", "--yes").succeeded()
        return done.out

    assert wiki("suspend") == "pendingtask.jervis.dev/wiki suspended\n"
    assert place.get("wiki")["spec"]["suspend"] is True
    assert wiki("suspend") == "pendingtask.jervis.dev/wiki was suspended already\n"
    assert wiki("resume") == "pendingtask.jervis.dev/wiki resumed\n"
    assert wiki("prioritize", "--position", "4") == "pendingtask.jervis.dev/wiki now queues at position 4\n"
    assert sorted(wiki("delete").splitlines()) == [
        f"pendingtask.jervis.dev/{name} deleted" for name in ("over", "wiki")
    ]
    assert place.names() == ["mail"]
    done = call("delete", "mail")
    assert (done.code, done.out, place.names()) == (0, "pendingtask.jervis.dev/mail deleted\n", [])
    call("delete", "mail").refused()


@pytest.mark.parametrize("words", ["retry", "retry a --all", "retry a b --as c", "retry --all --as c"])
def test_choices_that_contradict_themselves(call: site.Call, words: str) -> None:
    call(*words.split()).refused("  field: NAME\n")


def test_without_a_match_nothing_is_asked(call: site.Call) -> None:
    done = call("delete", "-l", "none=here")
    assert (done.code, done.out, done.err) == (0, "", "0 changed, 0 unchanged, 0 skipped, 0 failed.\n")


def test_a_wrong_selector_is_named_by_the_apiserver(call: site.Call) -> None:
    call("retry", "--field-selector", "status.colour=red", "--yes").refused("status.colour")


def test_who_may_not_write_fails_for_each(place: site.Site) -> None:
    for name in ("a", "b"):
        place.task(name, status=FAILED)
    reader = place.user("reader")
    grant(place, "reader")
    done = place.run("retry", "--all", "--yes", user=reader)
    assert (done.code, done.err.splitlines()[-1]) == (1, "0 changed, 0 unchanged, 0 skipped, 2 failed.")


def test_names_are_listed_page_by_page_without_their_specs(place: site.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        place.task(f"t-{number}")
    monkeypatch.setattr(kube, "_PAGE", "2")
    answers: list[Any] = []
    asked = kube.Kube._json

    def counted(self: kube.Kube, verb: str, path: str, **more: Any) -> Any:
        found = asked(self, verb, path, **more)
        answers.append(found)
        return found

    monkeypatch.setattr(kube.Kube, "_json", counted)
    assert complete.lines(["get", *place.flags(), "t-"]) == [*(f"t-{number}" for number in range(5)), ":4"]
    assert [len(page["items"]) for page in answers] == [2, 2, 1]
    assert all("spec" not in item and "status" not in item for page in answers for item in page["items"])
