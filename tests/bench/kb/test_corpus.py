"""Questions are halved by their ids, so that what is chosen on one half is reported on the other."""

from __future__ import annotations

import json
from pathlib import Path

from bench.kb import corpus, replay


def test_a_question_stays_in_its_half_when_others_are_added(tmp_path: Path) -> None:
    rows = [{"id": f"q{number}", "question": f"Who is {number}?", "gold": ["p"]} for number in range(60)]
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    few.write_text("\n".join(json.dumps(row) for row in rows[40:]), encoding="utf-8")
    many.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    chosen, reported = (corpus.questions(many, half=half) for half in corpus.HALVES)
    assert len(chosen) + len(reported) == len(corpus.questions(many)) == 60
    assert 15 < len(chosen) < 45
    assert {one.text for one in corpus.questions(few, half="choose")} <= {one.text for one in chosen}
    assert {one.half for one in reported} == {"report"}


def test_questions_without_an_answer_are_apart(tmp_path: Path) -> None:
    rows = [{"id": f"q{number}", "question": f"Who is {number}?", "gold": ["p"] * (number % 2)} for number in range(5)]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert [one.text for one in corpus.questions(path)] == ["Who is 1?", "Who is 3?"]
    assert [one.text for one in corpus.questions(path, answerable=False)] == ["Who is 0?", "Who is 2?", "Who is 4?"]


def test_an_extraction_gives_one_thing_several_types_and_always_the_same() -> None:
    texts = [f"Passage {number} names Metropolis." for number in range(40)]
    typed = [[replay.typing(text, types)("Metropolis") for text in texts] for types in (1, 2, 4, 4)]
    assert [len(set(kinds)) for kinds in typed] == [1, 2, 4, 4]
    assert typed[2] == typed[3]
    assert set(typed[0]) == {"entity"}
    assert replay.typing(texts[0], 4)("METROPOLIS") == replay.typing(texts[0], 4)("metropolis")
