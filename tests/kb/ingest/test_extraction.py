"""A relationship is believed only with the sentence that states it."""

from __future__ import annotations

from kb.ingest import extraction, sentence

_CHUNK = "Jana leads the core team. Petr wrote UserService.kt, and Jana\nreviewed it. Ann met Petr."
_SENTENCES = sentence.split(_CHUNK)


def prove(evidence: str, source: str = "Jana", target: str = "core team") -> str | None:
    stated = extraction.Relationship(source=source, target=target, type="leads", evidence=evidence)
    found = extraction.prove(_SENTENCES, stated)
    return found.text if found else None


def test_a_verbatim_quote_is_found_whatever_its_spaces_and_quotes() -> None:
    assert prove("Jana leads the core team.") == "Jana leads the core team."
    assert prove('"jana  leads the  core team"') == "Jana leads the core team."


def test_an_invented_quote_is_replaced_by_a_sentence_that_names_both_or_dropped() -> None:
    assert prove("The boss of the core team is Jana.") == "Jana leads the core team."
    assert prove("Petr reports to Jana.", source="Ann", target="Jana") is None
    assert prove("", source="Petr", target="UserService.kt") == "Petr wrote UserService.kt, and Jana"


def test_names_are_words() -> None:
    assert [found.text for found in extraction.naming(_SENTENCES, "ann")] == ["Ann met Petr."]
    assert extraction.naming(_SENTENCES, "an") == []
