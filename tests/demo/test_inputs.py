"""What the demonstration feeds in: real formats in, the text that a connection hands over out."""

from __future__ import annotations

import subprocess
from datetime import UTC, date, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from crds import pendingtask
from hack import drawing
from hack.demo import adf, commits, inputs, mail, submit
from text import mail as task_mail

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("path", sorted((ROOT / inputs.FOLDER).glob("*.eml")), ids=lambda path: path.stem)
def test_mails_are_well_formed(path: Path) -> None:
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert not message.defects
    assert {"From", "To", "Date", "Subject", "Message-ID", "MIME-Version", "Received"} <= set(message.keys())


def test_a_mail_is_decoded() -> None:
    weekly, capacity, certificate = inputs.mails(ROOT, NOW)
    assert weekly.source_urn == "email::infra-weekly-0047@lists.example.com"
    assert "Petra Svobodová took the GPU node gpu-3 with two NVIDIA L40S cards into service" in weekly.content
    assert "<html>" not in weekly.content
    assert capacity.content.startswith("From: Marta Kolářová <marta.kolarova@example.com>\nTo: Engineering Leads")
    assert "Attachments: openssl-output.txt" in certificate.content
    assert not any("{{" in item.content for item in (weekly, capacity, certificate))


def test_the_deadline_stays_ahead() -> None:
    _, capacity, _ = inputs.mails(ROOT, NOW)
    assert inputs.deadline(NOW) == date(2027, 1, 15)
    assert "to Controlling by 15 January 2027." in capacity.content


@pytest.mark.parametrize("raw", [b"Subject: no id\n\ntext\n", b"Message-ID: <a@b>\nContent-Type: image/png\n\nxx\n"])
def test_a_mail_without_identity_or_text_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"Message-ID|text/plain"):
        mail.read(raw)


def test_screenshots_come_with_the_same_words() -> None:
    failed, complete = inputs.screenshots(ROOT, NOW)
    read = [task_mail.read(item.message) for item in (failed, complete)]
    assert [(one.urn, one.title) for one in read] == [
        (failed.source_urn, "Message of the backup console"),
        (complete.source_urn, "Message of the backup console"),
    ]
    assert failed.source_urn != complete.source_urn
    bodies = [one.text.partition("\n\n")[2] for one in read]
    assert bodies[0] == bodies[1]
    assert "archive-2" not in read[0].text
    for one, name in zip(read, ("backup-failed", "backup-complete"), strict=True):
        [file] = one.files
        assert (file.name, file.media_type) == (f"{name}.png", "image/png")
        assert file.body == drawing.picture(inputs.screenshot(ROOT, NOW, name))
    assert "by 15 January 2027." in inputs.screenshot(ROOT, NOW, "backup-failed")


def test_an_issue_is_read() -> None:
    issue = inputs.issue(ROOT, NOW)
    assert issue.source_urn == "jira::JERV-142"
    assert inputs.issue(ROOT, NOW + timedelta(hours=1)).content != issue.content, "a run of another hour is news"
    lines = issue.content.splitlines()
    assert "Assignee: Platform Team <platform-team@example.com>" in lines
    assert "- The connection pool is configured in gateway/pool.yaml with maxIdleSeconds 3600." in lines
    assert "Comment by Tomáš Horák on 2026-11-17:" in lines


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (None, ""),
        ({"type": "text", "text": "a"}, "a"),
        ({"type": "text", "text": "a", "marks": [{"type": "link", "attrs": {"href": "http://b"}}]}, "a (http://b)"),
        ({"type": "date", "attrs": {"timestamp": "1798761600000"}}, "2027-01-01"),
        ({"type": "mention", "attrs": {"id": "1", "text": "@Eva"}}, "@Eva"),
        ({"type": "unknown", "content": [{"type": "text", "text": "kept"}]}, "kept"),
        (
            {
                "type": "orderedList",
                "content": [
                    {
                        "type": "listItem",
                        "content": [{"type": "paragraph", "content": [{"type": "text", "text": each}]}],
                    }
                    for each in ("one", "two")
                ],
            },
            "- one\n- two",
        ),
    ],
)
def test_atlassian_document_format(node: dict[str, Any] | None, expected: str) -> None:
    assert adf.text(node) == expected


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    git("init", "-q")
    for number in range(1, 4):
        (tmp_path / "file.txt").write_text("line\n" * number * 1000)
        git("add", ".")
        git("commit", "-q", "-m", f"Change {number}\n\nWhy it was made.")
    return tmp_path


def test_commits_newest_first_with_a_bounded_diff(repository: Path) -> None:
    found = commits.latest(repository, 2)
    assert [commit.subject for commit in found] == ["Change 3", "Change 2"]
    assert all(len(commit.text) < commits.DIFF_CHARS + 1000 for commit in found)
    assert "more characters of the diff left out" in found[0].text
    assert "Why it was made." in found[0].text
    assert len({commit.urn for commit in found}) == 2


def test_no_history_is_no_error(tmp_path: Path) -> None:
    assert commits.latest(tmp_path, 3) == []
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert commits.latest(tmp_path, 3) == []


def test_every_item_is_a_valid_task() -> None:
    items = [*inputs.mails(ROOT, NOW), *inputs.screenshots(ROOT, NOW), inputs.issue(ROOT, NOW), *inputs.history(ROOT)]
    items.append(inputs.question(ROOT))
    names = set()
    for item in items:
        task = pendingtask.PendingTask.model_validate(submit.manifest(item, "run"))
        assert task.spec.content
        assert len(task.spec.content.encode()) <= pendingtask.CONTENT_BYTES
        names.add(task.metadata.name)
    assert len(names) == len(items)
