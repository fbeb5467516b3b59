"""The set of examples/qualify: its format, and that it holds every kind, language and category."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from bench.qualify import items
from crds import pendingtask
from hack import drawing

SET = items.load()
SHARED = items.shared()
DECISIONS = {decision.value for decision in pendingtask.Decision}


def test_the_set_holds_every_kind_language_category_and_decision() -> None:
    assert len(SET) >= 60
    assert {one.kind for one in SET} == set(items.KINDS)
    assert {one.category for one in SET} == set(items.CATEGORIES)
    assert {route.value for one in SET for route in one.expected.route} == DECISIONS
    pairs = {(one.language, one.category) for one in SET}
    wanted = set(itertools.product(items.LANGUAGES, items.CATEGORIES))
    assert pairs >= wanted
    assert {folder.name for folder in items.FOLDER.iterdir() if folder.is_dir()} == set(items.KINDS)


def test_pictures_are_of_several_kinds() -> None:
    pictures = [(one, picture) for one in SET for picture in one.pictures]
    assert len(pictures) >= 5
    assert {one.language for one, _ in pictures} == set(items.LANGUAGES)
    assert {picture.look for _, picture in pictures} == set(get_args(drawing.Look))
    assert {picture.media_type for _, picture in pictures} == {"image/png", "image/jpeg", "image/gif", "image/webp"}
    names = [picture.name for _, picture in pictures]
    assert len(set(names)) == len(names), "the name distinguishes the calls about them"
    assert [one.id for one, picture in pictures if picture.text.strip() in one.content] == []


def test_deadlines_are_near_far_and_relative() -> None:
    days = {(one.expected.deadline - SHARED.today.date()).days for one in SET if one.expected.deadline}
    assert days & {0, 1}
    assert any(SHARED.lead_days < day < 15 for day in days)
    assert any(day > 30 for day in days)
    relative = (
        "by Friday",
        "do pátku",
        "bis Ende nächster Woche",
        "do konce příštího týdne",
        "by tomorrow",
        "bis Freitag",
    )
    assert all(any(words in one.content for one in SET) for words in relative)


@pytest.mark.parametrize("item", SET, ids=lambda item: item.id)
def test_an_item_is_a_task_of_its_own(item: items.Item) -> None:
    request = item.request(SHARED)
    assert item.id.split("/")[1].startswith(f"{item.language}-"), "a file is named LANGUAGE-WHAT.txt"
    assert " ".join(request.title.split()) == item.title
    assert [one.id for one in SET if one.title == item.title] == [item.id], "calls are told apart by the title"
    assert item.content.strip()
    expected = item.expected
    # What the route follows from must not contradict it.
    if pendingtask.Decision.INFO_ONLY in expected.route:
        assert not expected.actionable
    if pendingtask.Decision.EXECUTE_HIGH in expected.route:
        assert expected.mine
    if pendingtask.Decision.DEFER in expected.route:
        assert expected.deadline is not None
        assert (items.end_of(expected.deadline) - SHARED.today).days >= SHARED.lead_days
