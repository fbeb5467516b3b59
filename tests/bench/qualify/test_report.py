"""What the figures of bench.qualify rest on: reading items, comparing, counting, and the faults of the load."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.qualify import items, load, passes, report, spy
from tests.fakes.ollama import faults as simulated

ITEMS = items.load()
ITEM = next(one for one in ITEMS if one.id == "mail/en-request-friday")


def outcome(route: str, item: items.Item = ITEM, **hints: object) -> passes.Outcome:
    return passes.Outcome(item, route, item.expected.hints() | hints, "because", seconds=1.0, tries=1)


def test_a_disagreement_is_listed_with_what_was_expected() -> None:
    asks = next(one for one in ITEMS if one.id == "mail/en-incomplete")
    found = report.document([outcome("Defer"), outcome("InfoOnly", urgency="low"), outcome("Ask", asks)])
    assert found["confusion"] == {"Defer": {"Defer": 1, "InfoOnly": 1}, "Execute or Ask": {"Ask": 1}}
    assert (found["rightRoutes"], found["rightHints"]) == (2, 2)
    assert [one["item"] for one in found["wrong"]] == [ITEM.id]
    assert found["hints"] == [{"item": ITEM.id, "urgency": ["low", "normal"]}]
    shown = report.table([outcome("InfoOnly")])
    assert f"{ITEM.id}: InfoOnly, expected Defer: because" in shown
    assert "0 of 1 routes are right" in shown


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (report.percentile(values, 50), report.percentile(values, 99)) == (50.0, 99.0)
    assert (report.percentile([7.0], 99), report.percentile([], 99)) == (7.0, 0.0)


def test_tokens_are_counted_by_the_backend_or_said_not_to_be() -> None:
    prompt = {"messages": [{"role": "system", "content": "[prompt:kb.hints/v2] x"}, {"content": "Title: A\ntext"}]}
    body = json.dumps(prompt).encode()
    counted, silent = spy.described("/api/chat", body), spy.described("/api/chat", body)
    assert (counted.tag, counted.title) == ("kb.hints/v2", "A")
    counted.status = silent.status = 200
    said = b'{"message": {"content": "{}"}}\n{"done": true, "prompt_eval_count": 12, "eval_count": 1}\n'
    spy.read(counted, said)
    spy.read(silent, b'{"message": {"content": "{\\"a\\""}}\n')
    assert (counted.prompt_tokens, counted.answer_tokens, counted.counted, counted.whole) == (12, 1, True, True)
    assert (silent.prompt_tokens, silent.answer_tokens, silent.counted, silent.whole) == (9, 1, False, False)


def test_the_load_has_different_items_and_every_kind_of_fault() -> None:
    made = load.varied(300, seed=1)
    assert len({one.title for one in made}) == len({one.id for one in made}) == 300
    assert {one.language for one in made} == set(items.LANGUAGES)
    assert len({one.request(items.shared()).title for one in made}) == 300
    planned = load.faults(2000, seed=1)
    assert planned == load.faults(2000, seed=1) != load.faults(2000, seed=2)
    assert 100 < len(planned) < 240
    assert len(Counter(next(iter(set(one) - {"match", "nth"})) for one in planned)) == 4
    simulated.parse(planned)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type: EmailProcessing\n", "a line --- must stand"),
        ("type: Mail\n---\nx", "type"),
        (
            "type: EmailProcessing\nlanguage: en\ncategory: odd\nexpect: {route: Defer, urgency: low}\n---\nx",
            "category",
        ),
        ("type: EmailProcessing\nlanguage: en\ncategory: plain\nexpect: {route: Wait, urgency: low}\n---\nx", "expect"),
        ("type: [\n---\nx", "while parsing"),
    ],
)
def test_a_wrong_item_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "en-wrong.txt").write_text(text)
    (tmp_path / "set.yaml").write_text((items.FOLDER / "set.yaml").read_text())
    with pytest.raises(ValueError, match=f"(?s)mail/en-wrong.*{words}"):
        items.load(tmp_path)


def test_the_script_answers_by_title() -> None:
    scripted = replace(ITEM, answer={"a": 1}, title="One")
    assert items.script([scripted, ITEM]) == {"kb.qualify.email/v2": [{"when": "Title: One", "answer": '{"a": 1}'}]}
    assert items.script([ITEM]) == {}
