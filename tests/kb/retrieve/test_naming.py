"""The names in a question."""

from __future__ import annotations

from kb.graph import model
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


def forms(question: str, known: tuple[str, ...], *names: str) -> list[str]:
    stems = [model.stem_of(f":{name}") for name in names]
    return naming.inflected(naming.spans(question), known, stems)


def test_an_inflected_name_is_known_by_its_stem() -> None:
    assert forms("Kde pracuje manžel Jany Novákové?", (), "jana nováková", "nováková") == ["jan novak"]
    assert forms("Was ist mit dem Vertrag Müllers?", (), "müller") == [model.stem_of(":müller")]
    assert forms("Что с договором Орлова?", (), "орлов") == [model.stem_of(":орлов")]


def test_what_is_called_so_exactly_has_no_other_form() -> None:
    assert forms("Where is Petra?", ("petra",), "petr") == []
    assert forms("Where is Petra now?", ("jana",), "petr") == ["petr"]


def test_a_word_without_a_capital_is_no_inflected_name() -> None:
    assert forms("which services are there?", (), "service") == []


def test_a_name_within_a_question_without_spaces() -> None:
    assert named("佐藤さくらさんはどのチームのリーダーですか。", "佐藤さくら", "佐藤", "チーム") == [
        "佐藤さくら",
        "チーム",
    ]
    assert named("金葉の連絡先", "金葉", "の") == ["金葉"]
    assert named("PostgreSQLに移す", "postgresql") == ["postgresql"]


def test_words_that_name_nothing_name_nothing() -> None:
    assert named("What is it?", "is") == []
    assert named("", "run") == []


def test_a_long_question_is_looked_through_at_its_beginning_only() -> None:
    assert len(naming.spans("word " * 10_000)) < 3000
