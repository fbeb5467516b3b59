"""Lines of a rule that say who hears of a task."""

from __future__ import annotations

import pytest

from crds import provisions
from crds.notices import Event, Notice

URL = "https://hooks.example.com/services/T1?key=a,b"


def test_a_line_is_read() -> None:
    text = f"""Jana hears of it.
enforce: notify {URL} on UserTask, failure
  ENFORCE: Notify http://[2001:db8::1]:8080 ON completed
enforce: never-say x"""
    assert provisions.notified(text) == (
        Notice(URL, frozenset({Event.USER_TASK, Event.FAILURE})),
        Notice("http://[2001:db8::1]:8080", frozenset({Event.COMPLETED})),
    )
    assert provisions.unaddressed(text) == "Jana hears of it.\nenforce: never-say x"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("", "the address of a webhook"),
        ("jana@example.com on UserTask", "the address of a webhook"),
        ("ftp://hooks.example.com on UserTask", "the address of a webhook"),
        ("https://user:secret@hooks.example.com on UserTask", "the address of a webhook"),
        ("https://hooks.example.com:0 on UserTask", "the address of a webhook"),
        ("https://hooks.example.com:x on UserTask", "the address of a webhook"),
        ("https:///path on UserTask", "the address of a webhook"),
        ("https://hooks.example.com/\u00e4 on UserTask", "the address of a webhook"),
        (f"https://hooks.example.com/{'a' * 2000} on UserTask", "the address of a webhook"),
        (URL, "UserTask, Failure, Completed"),
        (f"{URL} on", "UserTask, Failure, Completed"),
        (f"{URL} UserTask", "UserTask, Failure, Completed"),
        (f"{URL} on Done", "UserTask, Failure, Completed"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(words: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="cannot be enforced") as caught:
        provisions.of(f"enforce: notify {words}")
    assert remedy in str(caught.value)
