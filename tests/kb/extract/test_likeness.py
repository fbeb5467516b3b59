"""What counts as the same text, by examples: the numbers are those of decision 0104."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.extract import likeness
from tests import effort

EN = (
    "The maintenance of the data centre takes place on Saturday, 28 November 2026 from 22:00 to 02:00. During this\n"
    "time the shop and the billing service are not available. Please save your work before, and contact the service\n"
    "desk if you see any problem afterwards."
)
CS = (
    "Odstávka datového centra proběhne v sobotu 28. 11. 2026 od 22:00 do 02:00. Po tuto dobu nebude dostupný obchod\n"
    "ani fakturace. Prosíme, uložte si předem rozdělanou práci a případné potíže hlaste na podporu."
)
DE = (
    "Die Wartung des Rechenzentrums findet am Samstag, 28. November 2026 von 22:00 bis 02:00 Uhr statt. In dieser\n"
    "Zeit sind der Shop und die Abrechnung nicht erreichbar. Bitte speichern Sie vorher Ihre Arbeit."
)
BUILD = "The nightly build of the {} failed in the step integration tests of billing. The log of run {} says why."
ACCESS = "Access to the warehouse was requested for {}. Please approve or reject it in the portal in the usual time."


def mail(text: str, subject: str = "Maintenance", number: int = 1) -> str:
    head = f"From: Ops <ops@acme.example>\nTo: list-{number}@acme.example\nMessage-ID: <{number}@acme.example>\n"
    return f"{head}Date: Mon, 23 Nov 2026 0{number}:00:00 +0100\nSubject: {subject}\n\n{text}\n"


def forwarded(text: str, rule: str, names: str, said: str = "") -> str:
    sender, sent, subject, to = names.split()
    block = f"{sender}: Ops <ops@acme.example>\n{sent}: 23. 11. 2026 08:00\n{subject}: x\n{to}: list-1@acme.example"
    return mail(f"{said}\n\n{rule}\n{block}\n\n{text}", "Fwd: Maintenance", 2)


SAME = {
    "two lists": (mail(EN), mail(EN, number=2)),
    "footer of a list": (mail(EN), mail(f"{EN}\n\n____________\nlist-b mailing list\nhttps://lists.example/list-b")),
    "forwarded": (mail(EN), forwarded(EN, "---------- Forwarded message ---------", "From Date Subject To")),
    "with a word": (mail(EN), forwarded(EN, "-------- Forwarded message ------", "From Date Subject To", "For you.")),
    "Czech": (mail(CS), forwarded(CS, "---------- Přeposlaná zpráva ----------", "Od Datum Předmět Komu", "Viz níže.")),
    "German": (mail(DE), forwarded(DE, "-----Ursprüngliche Nachricht-----", "Von Gesendet Betreff An", "Z. K.")),
    "a page": (mail(EN), f"Maintenance\n\n{EN}"),
    "wrapped anew": (EN, " ".join(EN.split())),
    "a word corrected": (EN, EN.replace("afterwards", "later")),
}
DIFFERENT = {
    "another day": (EN, EN.replace("28 November", "5 December")),
    "the opposite": (EN, EN.replace("not available", "available as always, without any interruption")),
    "another run": (BUILD.format("shop", 812), BUILD.format("shop", 813)),
    "another service": (BUILD.format("shop", 812), BUILD.format("portal", 812)),
    "another person": (ACCESS.format("Jana Novak"), ACCESS.format("Petr Svoboda")),
    "a translation": (EN, DE),
    "a reply": (mail(EN), mail("We will look at it on Sunday, before the shop opens and all come in.\n> " + EN)),
}


def share(one: str, other: str) -> float:
    first, second = likeness.of(one), likeness.of(other)
    assert first is not None
    assert second is not None
    assert likeness.alike(first, second) == likeness.alike(second, first)
    return likeness.alike(first, second)


@pytest.mark.parametrize("name", SAME)
def test_the_same_in_another_form(name: str) -> None:
    assert share(*SAME[name]) >= likeness.LEAST


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_in_what_it_says(name: str) -> None:
    assert share(*DIFFERENT[name]) < likeness.LEAST


def test_a_text_that_says_little_is_like_none() -> None:
    assert likeness.of("Thank you very much!") is None
    own = likeness.of(EN)
    assert own is not None
    assert likeness.best(own, ["Thank you.", DE, EN]) == (2, 1.0)
    assert likeness.best(own, ["Thank you.", DE]) is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_have_a_share(one: str, other: str) -> None:
    first, second = likeness.of(one), likeness.of(other)
    if first is not None:
        assert likeness.alike(first, first) == 1.0
        if second is not None:
            assert 0.0 <= likeness.alike(first, second) == likeness.alike(second, first) <= 1.0


def test_no_text_takes_long() -> None:
    with effort.counted() as spent:
        assert likeness.of("word " * 800_000) is not None
        likeness.of("On " * 1_000_000)
    assert spent.loops < 120
