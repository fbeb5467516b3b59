"""What a model extracts: a relationship is believed only with the sentence that states it, and nothing is kept of an
answer that breaks off, so that it is asked for again."""

from __future__ import annotations

import json
import unicodedata
from typing import Literal

import httpx
import prometheus_client
import pytest

from crds import priority, scope
from kb import metrics
from kb.extract import answers, extraction, prompt, sentence
from router import client

Form = Literal["NFC", "NFD"]

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


def test_a_quote_proves_nothing_of_names_that_it_has_nothing_to_do_with() -> None:
    assert prove("Jana leads the core team.", source="Paris", target="Napoleon") is None
    assert prove("Jana leads the core team.", source="Jana", target="Napoleon") is None
    assert prove("Ann met Petr.", source="Jana", target="core team") == "Jana leads the core team."
    # A pronoun may stand for the other end.
    sentences = sentence.split("Janu Novákovou zná každý. Vede tým Platforma.")
    stated = extraction.Relationship(
        source="Jana Nováková", target="Platforma", type="leads", evidence="Vede tým Platforma."
    )
    found = extraction.prove(sentences, stated)
    assert found is not None
    assert found.text == "Vede tým Platforma."
    # The title may name it, too.
    assert extraction.prove(sentences[1:], stated) is None
    assert extraction.prove(sentences[1:], stated, "Jana Nováková") is not None


def test_a_pronoun_stands_for_what_the_sentence_before_names_and_for_nothing_farther_away() -> None:
    """SmolLM2 took the first sentence of such a text for evidence that Steinwerk employs Greta Moser."""
    stated = extraction.Relationship(
        source="Steinwerk", target="Greta Moser", type="employee", evidence="It is paid by Steinwerk."
    )

    def proved(*texts: str) -> bool:
        return extraction.prove(sentence.split(" ".join(texts)), stated, "Notes") is not None

    about, quote, between = "Greta Moser leads the project Bluebird.", "It is paid by Steinwerk.", "Coffee is upstairs."
    assert proved(about, quote)
    assert not proved(about, between, quote)
    assert not proved(quote, about)
    assert not proved(quote, between, about)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("other", ["NFC", "NFD"])
def test_a_name_is_found_in_either_form_of_unicode(form: Form, other: Form) -> None:
    sentences = sentence.split(unicodedata.normalize(form, "Řehoř Dvořák vede tým. Šéf souhlasí."))
    assert len(extraction.naming(sentences, unicodedata.normalize(other, "Řehoř Dvořák"))) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("O tom rozhodne schůzka s Janou Novákovou.", "Jana Nováková"),
        ("Zeptej se Karla Vaňka.", "Karel Vaněk"),
        ("Servery stojí v Praze.", "Praha"),
        ("Das ist die Aufgabe des Rechnungsdienstes.", "Rechnungsdienst"),
        ("Договор с Анной Орловой.", "Анна Орлова"),
        ("請求サービスはハヤブサで動きます。", "ハヤブサ"),
        ("项目由李明负责。", "李明"),
    ],
)
def test_an_inflected_name_is_found(text: str, name: str) -> None:
    sentences = sentence.split(f"{text}\n{text[:2]}.")
    assert [found.text for found in extraction.naming(sentences, name)] == [text]


def test_a_sentence_with_the_name_as_written_goes_before_its_other_forms() -> None:
    sentences = sentence.split("Petr má volno. Petra má službu.")
    assert [found.text for found in extraction.naming(sentences, "Petr")] == ["Petr má volno."]
    assert [found.text for found in extraction.naming(sentences, "Petra")] == ["Petra má službu."]


def test_a_short_name_has_no_other_forms() -> None:
    assert extraction.naming(sentence.split("We ban it. Bans are rare."), "Ban") == sentence.split("We ban it.")
    assert extraction.naming(sentence.split("Ida has it."), "Id") == []


def test_names_are_words() -> None:
    assert [found.text for found in extraction.naming(_SENTENCES, "ann")] == ["Ann met Petr."]
    assert extraction.naming(_SENTENCES, "an") == []


_OWNER = scope.Scope(client_id="c")
_QUESTION = prompt.compose("x/v1", "i", [], "text")


class Shelf:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def answer(self, key: str, owner: scope.Scope) -> str | None:
        return self.kept.get(key)

    async def keep_answer(self, key: str, prompt_name: str, text: str, owner: scope.Scope) -> None:
        self.kept[key] = text


def _server(*texts: str) -> httpx.MockTransport:
    """A model that writes these answers, the last one again and again; each ends at the length that it may have."""
    left = list(texts)

    def answer(request: httpx.Request) -> httpx.Response:
        text = left.pop(0) if len(left) > 1 else left[0]
        record = {"message": {"content": text}, "done": True, "done_reason": "length", "eval_count": 9}
        return httpx.Response(200, content=json.dumps(record).encode())

    return httpx.MockTransport(answer)


async def _extracted(shelf: Shelf, *texts: str) -> tuple[extraction.Extraction, int]:
    """The facts, and the calls that they took."""
    spent = answers.Spent()
    async with httpx.AsyncClient(transport=_server(*texts)) as http:
        meters = metrics.Metrics(prometheus_client.CollectorRegistry())
        asked = answers.Answers(client.Client("http://router", http), "m", shelf, meters)
        read = await asked.ask(_QUESTION, extraction.Extraction, priority.Priority.P3, _OWNER, spent)
        return read, spent.calls


_CUT = '{"entities": [{"name": "Anna", "type": "person"}, {"name": "Be'
_WHOLE = '{"entities": [{"name": "Anna", "type": "person"}, {"name": "Bela", "type": "person"}], "relationships": []}'


async def test_a_chunk_whose_facts_break_off_is_asked_for_again() -> None:
    shelf = Shelf()
    read, calls = await _extracted(shelf, _CUT)
    assert ([one.name for one in read.entities], calls, shelf.kept) == (["Anna"], answers.ATTEMPTS, {})
    read, calls = await _extracted(shelf, _CUT, _WHOLE)
    assert ([one.name for one in read.entities], calls, len(shelf.kept)) == (["Anna", "Bela"], 2, 1)
