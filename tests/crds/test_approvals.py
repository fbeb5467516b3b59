"""What of an effect a status has, durations of policies, and edited arguments."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import approvals

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=80), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=80), _VALUES, max_size=6), st.text(max_size=5000), st.integers(0, 8192))
def test_an_effect_fits_and_its_arguments_stay_an_object(given: dict[str, object], shown: str, most: int) -> None:
    fields = {"id": "r/0", "tool": "t", "arguments": given, "shown": shown, "why": shown}
    made = approvals.Recorded.model_validate(fields).effect(most)
    assert len(made.arguments.encode()) <= most
    assert made.arguments == "" or isinstance(json.loads(made.arguments), dict)
    assert len(made.shown.encode()) <= 2048
    if not made.shortened:
        assert json.loads(made.arguments) == given


def recorded(**fields: Any) -> approvals.Recorded:
    return approvals.Recorded(id="r1.d1/0", tool="sendMail", **fields)


def test_targets_and_copies_that_do_not_fit_are_left_out_and_that_is_said() -> None:
    targets = tuple(f"p{number}@example.com" for number in range(40))
    assert recorded(targets=targets).effect().targets == targets
    short = recorded(targets=targets).effect(1000)
    assert (short.shortened, short.targets) == (True, targets[: len(short.targets)])
    assert 0 < len(short.targets) < 40
    # A part of a target would be another one.
    assert recorded(targets=("a" * 321, "b")).effect().targets == ("b",)
    assert recorded(copies=(approvals.Copy(text="x" * 600),)).effect(1000).shortened


def test_what_fits_is_whole_and_what_does_not_keeps_its_names() -> None:
    mail = {"to": ["ada@example.com"], "subject": "Hi", "body": "x" * 5000}
    assert json.loads(recorded(arguments=mail).effect().arguments) == mail
    short = recorded(arguments=mail).effect(1500)
    found = json.loads(short.arguments)
    assert (short.shortened, found["to"], found["subject"]) == (True, mail["to"], "Hi")
    assert found["body"].endswith("x… [cut]")


def test_a_key_is_whole_or_absent() -> None:
    assert recorded(details_ref="k" * 253).effect().details_ref == "k" * 253
    assert recorded(details_ref="k" * 254).effect().details_ref == ""


@pytest.mark.parametrize(
    ("said", "meant"),
    [("0s", None), ("90s", timedelta(seconds=90)), ("5m", timedelta(minutes=5)), ("24h", timedelta(days=1))],
)
def test_durations(said: str, meant: timedelta | None) -> None:
    assert approvals.period(said) == meant


@pytest.mark.parametrize("said", ["", "1d", "h", "soon"])
def test_what_is_no_duration(said: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        approvals.period(said)


def test_edited_arguments_are_a_bounded_object() -> None:
    assert approvals.fault("{}") == ""
    assert approvals.fault("[]") == "is no JSON object"
    assert approvals.fault("{").startswith("is no JSON: ")
    assert approvals.fault("[" * 5000).startswith("is no JSON")
    assert "8192 is the most" in approvals.fault("{" + " " * 8192 + "}")


def test_a_text_of_which_a_status_has_the_beginning_is_found_in_edited_arguments() -> None:
    mail = {"to": ["ada@example.com"], "subject": "Hi", "text": "x" * 5000}
    cut = json.loads(recorded(arguments=mail).effect(1500).arguments)
    assert approvals.cut_at(json.dumps({**cut, "to": ["bob@example.com"]})) == "text"
    assert approvals.cut_at(json.dumps({"event": {"notes": ["a", f"b{approvals.CUT}"]}})) == "event.notes.1"
    assert approvals.cut_at(json.dumps({f"name{approvals.CUT}": 1})) == f"name{approvals.CUT}"
    assert approvals.cut_at(json.dumps({**mail, "subject": "And then…"})) == ""


def test_arguments_that_do_not_fit_with_the_beginning_of_each_text_are_not_shown() -> None:
    made = recorded(arguments={f"name{n}": "x" * 100 for n in range(200)}).effect(1500)
    assert (made.arguments, made.shortened) == ("", True)
