"""The screenshots of the demonstration: how they are sent, and what becomes of them in the knowledge base."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from bench.qualify import items, passes, site
from controllers.pendingtask import directive
from crds import API_VERSION, pendingtask, scope
from hack.demo import inputs, report, settings, submit
from hack.demo.kubectl import Kubectl
from kb import api
from tests import needs
from tests.kb import conftest

ROOT = Path(__file__).parents[2]
SHARED = items.shared()


@pytest.mark.services
async def test_their_words_decide_the_phase_and_answer_the_question() -> None:
    needs.ocr()
    where = site.Services(*conftest.stores())
    shots = inputs.screenshots(ROOT, SHARED.today)
    expected = items.Expected.model_validate({"route": "Defer", "urgency": "normal"})
    todo = []
    for shot in shots:
        name = shot.name.removeprefix("mail-")
        picture = items.Picture(name=f"{name}.png", text=inputs.screenshot(ROOT, SHARED.today, name))
        todo.append(
            items.Item(f"demo/{name}", shot.type, "en", "plain", name, shot.content, expected, pictures=(picture,))
        )
    shared = SHARED.model_copy(update={"client_id": settings.CLIENT, "project_id": settings.PROJECT})
    async with site.opened(where, SHARED.today) as place:
        outcomes = await passes.run(place, todo, shared)
        asked = api.RetrieveRequest(
            scope=scope.Scope(client_id=settings.CLIENT, project_id=settings.PROJECT),
            query=report.PICTURED,
            kinds=["attachment"],
        )
        first = (await place.kb.retrieve(asked)).items[0]
    phases = [directive.PHASES[pendingtask.Decision(one.route)] for one in outcomes]
    assert [{phase} for phase in phases] == [set(shot.expected) for shot in shots]
    [deadline] = [one.hints["suggestedDeadline"] for one in outcomes if one.hints["hasFutureDeadline"]]
    assert deadline == (SHARED.today + timedelta(days=inputs.DEADLINE_DAYS)).date()
    # Until its extraction is done, which waits in the queue, the whole file is the evidence.
    assert "its volume archive-2 is full." in " ".join((first.provenance.sentence or first.content).split())


def test_a_mail_with_files_is_submitted_and_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in place of kubectl and Python that keeps what it is called with, and forwards no port."""
    program = tmp_path / "kubectl"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib, sys, time\n"
        "with (pathlib.Path(__file__).parent / 'calls').open('a') as calls:\n"
        "    calls.write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "if 'port-forward' in sys.argv:\n"
        "    print('Forwarding from 127.0.0.1:4711 -> 8080', flush=True)\n"
        "    time.sleep(60)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    plain, *_ = inputs.mails(ROOT, SHARED.today)
    shot, _ = inputs.screenshots(ROOT, SHARED.today)
    submit.apply(Kubectl(program, "", "jervis"), [plain, shot], "run")
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    [applied] = [call for call in calls if "apply" in call]
    [sent] = [call for call in calls if "submit" in call]
    [labelled] = [call for call in calls if "label" in call]
    assert calls.index(applied) < calls.index(sent) < calls.index(labelled)
    assert [call[-2:] for call in calls if "port-forward" in call] == [["svc/jervis-kb-write", ":8080"]]
    assert sent[sent.index("submit") + 1].endswith("mail-backup-failed.eml")
    assert sent[-2:] == ["--kb", "http://127.0.0.1:4711"]
    assert labelled[-3:] == ["mail-backup-failed-run", "jervis.dev/demo=true", "jervis.dev/demo-run=run"]


def test_the_report_shows_their_routes_and_asks_about_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "known: $*"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    task = pendingtask.PendingTask.model_validate(
        {
            "apiVersion": API_VERSION,
            "kind": "PendingTask",
            "metadata": {"name": "mail-backup-failed-run", "uid": "u"},
            "spec": {"type": "EmailProcessing", "clientId": "demo", "content": "x"},
            "status": {"phase": "Scheduled", "route": {"decision": "Defer", "reason": "deadline 2027-01-09"}},
        }
    )
    report.pictures(Console(width=200), Kubectl(Path("kubectl"), "", "jervis"), [task], "http://127.0.0.1:4711")
    text = capsys.readouterr().out
    for words in ("mail-backup-failed-run", "Defer", "deadline 2027-01-09", "--url http://127.0.0.1:4711"):
        assert words in text
    assert f"known: -m cli.knowledge ask {report.PICTURED} --client demo" in text
