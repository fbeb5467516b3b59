"""What people read."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich import console

from cli import errors, moment, output, reading
from cli.views import backends, history, queue, result, story, waiting
from contracts.api import history as crds_history
from contracts.api import queue_api
from crds import gpubackend, pendingtask
from tests.cli import objects


def read(raw: Any) -> pendingtask.PendingTask:
    return pendingtask.PendingTask.model_validate(raw)


def lines(drawn: Any) -> list[str]:
    return output.plain(drawn).splitlines()


def test_the_queue() -> None:
    some = [
        reading.line(objects.task("chat", spec={"type": "UserInputProcessing"}, status={"phase": "ReadyForGpu"})),
        reading.line(
            objects.task("wiki", spec={"type": "WikiProcessing", "queuePosition": 3}, age=7200, namespace="other")
        ),
    ]
    assert lines(queue.draw(some, objects.NOW, namespaces=True)) == [
        "#   NAMESPACE   NAME   TYPE                  CLIENT   MODE         POSITION   PHASE         AGE    WAITS FOR",
        "1   team        chat   UserInputProcessing   acme     Foreground   -          ReadyForGpu   60s    a GPU",
        "2   other       wiki   WikiProcessing        acme     Background   3          New           120m   "
        "the operator",
    ]
    assert lines(queue.draw([], objects.NOW, namespaces=False)) == ["No tasks are waiting."]


def told(name: str, reason: queue_api.Reason, **more: Any) -> queue_api.Waiting:
    known = {"uid": f"uid-{name}", "name": name, "clientId": "acme", "mode": "Background", "phase": "ReadyForGpu"}
    return queue_api.Waiting.model_validate(
        {**known, "reason": reason, "message": queue_api.MESSAGES[reason], "since": objects.at(-90), **more}
    )


def answer(*items: queue_api.Waiting, **more: Any) -> queue_api.Queue:
    known: dict[str, Any] = {
        "leading": True,
        "orchestratorHealthy": True,
        "breaker": "Closed",
        "slots": {"total": 2, "free": 0},
        "foreground": {"pending": 0},
        "background": {"pending": len(items), "oldest": objects.at(-90)},
        "items": [one.wire() for one in items],
    }
    return queue_api.Queue.model_validate({**known, **more})


def test_the_queue_with_what_the_operator_says() -> None:
    raw = objects.task("wiki", status={"phase": "ReadyForGpu"})
    said = answer(
        told(
            "wiki", queue_api.Reason.NO_FREE_SLOT, uid=raw["metadata"]["uid"], position=4, before=3, beforeOwn=["mail"]
        )
    )
    tasks = [reading.line(raw), reading.line(objects.task("new"))]
    rows = lines(queue.draw(tasks, objects.NOW, namespaces=False, reported=said))
    assert rows[0].split()[-5:] == ["AGE", "WAITS", "FOR", "BEFORE", "SINCE"]
    assert rows[1].endswith("a GPU slot     3 (mail, ...)   90s")
    assert rows[2].endswith("the operator   -               -")


def test_the_queue_as_it_is_watched() -> None:
    said = answer(
        told("a", queue_api.Reason.USERS_ACTIVE, position=1),
        told("b", queue_api.Reason.POSTPONED, notBefore=objects.at(40)),
        told("c", queue_api.Reason.SUSPENDED, queuePosition=3),
        orchestratorHealthy=False,
        breaker="Open",
        leading=False,
        more=2,
    )
    assert lines(waiting.draw(said, objects.NOW)) == [
        "#   NAME   CLIENT   MODE         POSITION   PHASE         WAITS FOR               BEFORE   SINCE",
        "1   a      acme     Background   -          ReadyForGpu   users to be quiet       0        90s",
        "2   b      acme     Background   -          ReadyForGpu   its next try, in 40s    -        90s",
        "3   c      acme     Background   3          ReadyForGpu   resume (spec.suspend)   -        90s",
        "GPU slots: 0 of 2 free. Foreground: 0 waiting. Background: 3 waiting, the oldest for 90s. "
        "Runs cannot be dispatched (circuit breaker Open). 2 more are not shown; --all shows every task. "
        "Answered by a replica that stands by.",
    ]
    empty = lines(waiting.draw(answer(), objects.NOW))
    assert empty[0] == "No tasks are waiting."
    assert {waiting.lacks(told("x", reason), objects.NOW) for reason in queue_api.Reason}


def test_a_narrow_terminal_cuts_no_name() -> None:
    name = "mail-of-the-infrastructure-team-20261118"
    drawn = queue.draw([reading.line(objects.task(name))], objects.NOW, namespaces=True)
    screen = console.Console(width=60, file=io.StringIO())
    assert output.width(drawn, screen) > 60
    assert output.width("short", screen) == 60
    screen.width = output.width(drawn, screen)
    screen.print(drawn)
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert all(word in shown for word in (name, "EmailProcessing", "Background"))


@pytest.mark.parametrize(
    ("spec", "status", "words"),
    [
        ({}, {"phase": "ReadyForQualification"}, "the qualifier"),
        ({"suspend": True}, {"phase": "ReadyForGpu"}, "resume (spec.suspend)"),
        ({"suspend": True}, {"phase": "Done"}, ""),
        (
            {},
            {"phase": "ReadyForQualification", "retry": {"nextAt": objects.at(40), "reason": "KB is away."}},
            "retry in 40s: KB is away.",
        ),
        ({}, {"phase": "ReadyForQualification", "retry": {"nextAt": objects.at(-1), "reason": "x"}}, "the qualifier"),
        ({}, {"phase": "Scheduled", "scheduledFor": objects.at(3 * 86400)}, "its time, in 3d"),
        ({}, {"phase": "UserTask", "userTask": {"kind": "Approval"}}, "a person: Approval"),
        ({}, {"phase": "Orchestrating", "dispatch": {"backend": "gpu-0"}}, "its run on gpu-0"),
        ({}, {"phase": "Qualifying"}, "being read"),
        ({}, {"phase": "DispatchedGpu"}, "its pod"),
        (
            {},
            {
                "phase": "DispatchedGpu",
                "conditions": [
                    {
                        "type": "Dispatched",
                        "status": "False",
                        "reason": "ImagePullBackOff",
                        "message": "Back-off pulling image",
                        "lastTransitionTime": objects.at(0),
                    }
                ],
            },
            "its pod: Back-off pulling image",
        ),
    ],
)
def test_what_a_task_waits_for(spec: Any, status: Any, words: str) -> None:
    assert queue.waits_for(read(objects.task(spec=spec, status=status)), objects.NOW) == words


def test_the_story_of_a_question() -> None:
    raw = objects.asking(
        "Question",
        objects.QUESTIONS,
        answers=[{"id": "r1-q1", "text": "C4"}, {"id": "r0-q1", "text": "yes", "author": "bob"}],
        messages=[
            {"id": "m1", "text": "Hurry.", "author": "alice", "at": objects.at(-3)},
            {"id": "m2", "text": "Now."},
        ],
        sourceUrn="email::1@example.com",
        projectId="storage",
    )
    raw["status"] |= {
        "messagesSeen": 1,
        # The map has no order on the wire; equal seconds are told apart by the order of the phases.
        "phaseTimes": {
            "UserTask": objects.at(-5),
            "Qualifying": objects.at(-58),
            "ReadyForQualification": objects.at(-58),
        },
        "result": {"exitReason": "NeedsInput", "summary": "Needs to know.\nTwo things.", "ref": {"key": "k1"}},
    }
    assert lines(story.draw(read(raw), objects.NOW)) == [
        "Name:      team/mail-7",
        "Type:      EmailProcessing, Background",
        "Client:    acme / storage",
        "Source:    email::1@example.com",
        "Content:   Please replace the disk.",
        "Phase:     UserTask, waits for a person: Question",
        "Route:     Execute",
        "",
        "Timeline",
        "  PHASE                   ENTERED                AFTER",
        "  Created                 2026-11-18 11:59:00Z   +0s",
        "  ReadyForQualification   2026-11-18 11:59:02Z   +2s",
        "  Qualifying              2026-11-18 11:59:02Z   +0s",
        "  UserTask                2026-11-18 11:59:55Z   +53s",
        "",
        "Run",
        "  Attempt: 2",
        "",
        "Conditions",
        "  TYPE             STATUS   REASON     AGE   MESSAGE",
        "  WaitingForUser   True     Question   5s    Please.",
        "",
        "Questions",
        "  ID      QUESTION      ANSWER",
        "  r1-q1   Which rack?   C4",
        "  r1-q2   Which disk?   (open)",
        "",
        "Answers",
        "  ID      ANSWER   BY",
        "  r0-q1   yes      bob",
        "",
        "Messages",
        "  ID   AT                     BY      READ   TEXT",
        "  m1   2026-11-18 11:59:57Z   alice   yes    Hurry.",
        "  m2   -                      -       no     Now.",
        "",
        "Result",
        "  Ended:   NeedsInput",
        "  Whole:   kubectl jervis result mail-7",
        "  Needs to know.",
        "  Two things.",
        "",
        "Next:      kubectl jervis answer mail-7",
    ]


def test_the_story_of_a_waiting_task() -> None:
    task = read(objects.task("wiki", status={"phase": "ReadyForGpu"}))
    said = told("wiki", queue_api.Reason.NO_FREE_SLOT, position=4, before=3, beforeOwn=["mail"])
    shown = lines(story.draw(task, objects.NOW, said))
    assert [line for line in shown if line.startswith(("Phase", "Waits"))] == [
        "Phase:     ReadyForGpu",
        "Waits:     for a GPU slot; 3 before it (mail, ...); since 2026-11-18 11:58:30Z (90s)",
    ]
    held = lines(story.draw(task, objects.NOW, told("wiki", queue_api.Reason.SUSPENDED)))
    assert "Waits:     for resume (spec.suspend); since 2026-11-18 11:58:30Z (90s)" in held
    first = lines(story.draw(task, objects.NOW, told("wiki", queue_api.Reason.TURN, position=1)))
    assert "Waits:     for nothing, its turn has come; none before it; since 2026-11-18 11:58:30Z (90s)" in first


def test_the_story_of_a_new_task_has_no_empty_sections() -> None:
    told = lines(story.draw(read(objects.task()), objects.NOW))
    assert told[-4:] == [
        "",
        "Timeline",
        "  PHASE     ENTERED                AFTER",
        "  Created   2026-11-18 11:59:00Z   +0s",
    ]
    assert not [line for line in told if line in ("Run", "Conditions", "Questions", "Messages", "Result")]


def test_a_stranger_does_not_steer_the_terminal() -> None:
    evil = "\x1b[2Jgone\x9b31m\rover\u202etxt [bold]x[/bold] :smile:"
    raw = objects.asking("Question", [{"id": "q", "text": evil}], content=evil)
    raw["status"]["result"] = {"summary": evil}
    told = output.plain(story.draw(read(raw), objects.NOW))
    assert not set(told) & {"\x1b", "\x9b", "\r", "\u202e"}
    assert told.count("[bold]x[/bold] :smile:") == 3  # what looks like markup stays what it is


@pytest.mark.parametrize(
    ("kind", "command"), [("Approval", "approve mail-7, or reject"), ("Failure", "retry mail-7, or reject")]
)
def test_what_to_do_next(kind: str, command: str) -> None:
    assert command in lines(story.draw(read(objects.asking(kind)), objects.NOW))[-1]


def backend(name: str, **status: Any) -> gpubackend.GpuBackend:
    spec = {"url": "http://gpu:11434", "vram": "24Gi"}
    return gpubackend.GpuBackend.model_validate({"metadata": {"name": name}, "spec": spec, "status": status})


def test_backends() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Serving", "lastTransitionTime": objects.at(0)}
    loaded = [{"name": "q:30b"}, {"name": "q:7b"}]
    some = [backend("b"), backend("a", conditions=[ready], loadedModels=loaded, circuit="Closed", activeSet="night")]
    table = [
        "NAME   KIND   POOL      VRAM   READY     REASON      SET     LOADED        CIRCUIT   DRAIN",
        "a      GPU    default   24Gi   True      Serving     night   q:30b, q:7b   Closed    no",
        "b      GPU    default   24Gi   Unknown   NotProbed   -       -             -         no",
    ]
    assert lines(backends.draw(some, None)) == table
    load = backends.Load({"a": (1, 2)}, {"P3": 4, "P0": 1}, 12.4)
    cells = ("IN FLIGHT", "1 (2 per model)", "not known to the router")
    assert lines(backends.draw(some, load)) == [
        *(line.ljust(len(table[0]) + 3) + cell for line, cell in zip(table, cells, strict=True)),
        "",
        "Router: 5 waiting (P0 1, P3 4), the oldest for 12s.",
    ]
    assert lines(backends.draw(some, backends.Load({}, {"P0": 0}, 0.0)))[-1] == "Router: nothing waits."
    spec = {"url": "http://vllm:8000", "engine": "OpenAI"}
    vllm = gpubackend.GpuBackend.model_validate({"metadata": {"name": "v"}, "spec": spec})
    assert "v      GPU, OpenAI   default" in lines(backends.draw([vllm], None))[-1]
    assert lines(backends.draw([], None)) == ["No GpuBackends are in this namespace."]


def test_a_recurring_task_tells_of_its_runs() -> None:
    plan = {"cron": "0 12 * * *", "timeZone": "Europe/Prague"}
    known = {**plan, "lastRun": objects.at(-3600), "lastTask": "mail-7-0f9a1c2e-202611181100"}
    status = {"phase": "Scheduled", "scheduledFor": objects.at(7200), "recurrence": known}
    told = lines(story.draw(read(objects.task(spec={"schedule": plan}, status=status)), objects.NOW))
    assert told[told.index("Schedule") :][:4] == [
        "Schedule",
        "  Cron:    0 12 * * * (Europe/Prague)",
        "  Next:    2026-11-18 14:00:00Z, in 120m",
        "  Last:    2026-11-18 11:00:00Z as mail-7-0f9a1c2e-202611181100",
    ]


def entry(**more: Any) -> crds_history.Entry:
    known = {
        "uid": "u", "namespace": "team", "name": "disk", "clientId": "acme", "type": "EmailProcessing",
        "phase": "Completed", "createdAt": objects.at(-600), "completedAt": objects.at(-300),
        "archivedAt": objects.at(-290), "attempt": 2, "decision": "Execute", "exitReason": "Answered",
        "summary": "Slot C4.\nAll well.", **more,
    }  # fmt: skip
    return crds_history.Entry.model_validate(known)


def test_the_history() -> None:
    assert lines(history.draw([], objects.NOW)) == ["No finished tasks."]
    _, first, second = lines(history.draw([entry(), entry(name="w", exitReason="", summary="")], objects.NOW))
    cells = [cell.strip() for cell in first.split("  ") if cell.strip()]
    assert cells == [
        "disk",
        "EmailProcessing",
        "acme",
        "Completed",
        "Answered",
        "2",
        "5m",
        "5m ago",
        "Slot C4. All well.",
    ]
    assert second.split()[4] == "Execute"
    assert lines(history.result({"answer": "C4.\n"})) == ["", "Answer", "C4."]
    assert lines(history.result(None)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ""),
        ("90m", objects.at(-5400)),
        ("7d", objects.at(-7 * 86400)),
        ("2026-11-18T13:00:00+02:00", "2026-11-18T11:00:00Z"),
    ],
)
def test_since_when(text: str, said: str) -> None:
    assert moment.since(text, objects.NOW) == said


@pytest.mark.parametrize("text", ["yesterday", "7", "-1d", "2026-11-18", "2026-11-18T13:00:00"])
def test_since_no_time(text: str) -> None:
    with pytest.raises(errors.Unusable) as caught:
        moment.since(text, objects.NOW)
    assert caught.value.field == "--since"


def test_a_result_says_where_the_changed_files_are() -> None:
    base = "0123456789abcdef" * 2
    one = {"connection": "code", "base": base, "files": 2, "pushed": "", "patch": "a1"}
    changes = [
        one,
        {**one, "connection": "shop", "files": 1, "pushed": "jervis/area", "patch": ""},
        {**one, "connection": "big", "note": "There is no patch: it is too large."},
    ]
    assert lines(result.draw({"answer": "Done.", "changes": changes})) == [
        "Done.",
        "",
        "Changes",
        "  code (2 files): patch in artifact a1, for git apply at 0123456789ab",
        "  shop (1 files): branch jervis/area",
        "  big (2 files): There is no patch: it is too large. The files are listed in artifact a1",
    ]
