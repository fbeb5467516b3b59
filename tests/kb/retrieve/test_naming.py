"""The names in a question."""

from __future__ import annotations

from kb.retrieve import naming


def named(question: str, *known: str) -> list[str]:
    return naming.longest(naming.spans(question), known)


def test_a_name_is_found_whatever_its_case_and_punctuation() -> None:
    assert named("who wrote GATEWAY.KT?", "gateway.kt") == ["gateway.kt"]
    assert named("When did Lothair Ii's mother die?", "lothair ii") == ["lothair ii"]
    assert named("What of Love, Honor And Oh-Baby!", "love_ honor and oh-baby") == ["love_ honor and oh-baby"]
    assert named("Is JERV-123 done?", "jerv-123") == ["jerv-123"]


def test_of_names_within_names_the_longest_counts() -> None:
    question = "Which film is older, Romance on the Run or Run?"
    assert named(question, "run", "romance on the run") == ["romance on the run", "run"]
    assert named("Romance on the Run", "run", "romance", "romance on the run") == ["romance on the run"]


def test_words_that_name_nothing_name_nothing() -> None:
    assert named("What is it?", "is") == []
    assert named("", "run") == []


def test_a_long_question_is_looked_through_at_its_beginning_only() -> None:
    assert len(naming.spans("word " * 10_000)) < 3000
