"""The page of a passage that is meant: by the words of a question, and by a quotation."""

from __future__ import annotations

import pytest

from kb import paging
from kb.agent import places

TEXT = (
    "Das Büro in Brünn.\n\nDas Überdruckventil öffnet\nbei neun bar.\n\n"
    "压力阀在九巴时打开。 Čerpadla\u00a0běží celý rok."
)
STARTS = tuple((TEXT.index(word), page) for word, page in (("Das B", 4), ("Das Ü", 5), ("压", 7)))


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("Bei wie viel bar öffnet das Überdruckventil?", 5),
        ("压力阀", 7),
        ("Kdy běžela čerpadla?", 7),
        ("Brünn", 4),
        ("nothing of it", 4),
        ("the of", 4),
    ],
)
def test_the_page_with_most_of_a_question(question: str, page: int) -> None:
    assert places.best(TEXT, STARTS, question) == page


@pytest.mark.parametrize(
    ("quotation", "page"),
    [
        ("das überdruckventil öffnet bei neun bar", 5),
        ("Brünn. Das Überdruckventil", 4),
        ("bar. 压力阀在九巴时打开", 5),
        ("压力阀在九巴时打开", 7),
        ("Čerpadla běží celý rok.", 7),
        ("it is not there", None),
    ],
)
def test_the_page_on_which_a_quotation_begins(quotation: str, page: int | None) -> None:
    assert places.of_quotation(TEXT, STARTS, quotation) == page


def test_what_is_on_no_page_has_no_number() -> None:
    attached = paging.of([*STARTS, (TEXT.index("Čerpadla"), 0)])
    assert places.best(TEXT, attached, "čerpadla běží") is None
    assert places.of_quotation(TEXT, attached, "Čerpadla běží celý rok") is None
    assert places.of_quotation(TEXT, ((30, 2),), "Das Büro in Brünn") is None
    assert (places.best(TEXT, (), "Brünn"), places.of_quotation(TEXT, (), "Das Büro in Brünn")) == (None, None)
