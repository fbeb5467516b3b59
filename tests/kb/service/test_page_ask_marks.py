"""Of which marks of an answer the page at /kb/ask makes buttons, in a real browser: as `text.quotations` says."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kb.service.http import page
from tests import browser, httpserver
from text import quotations

BUTTONS = "[...document.querySelectorAll('.answer .cite')].map(one => one.dataset.ref)"
SHOWN = "document.querySelector('.answer').textContent"
FOUND = {"ref": 1, "chunkId": "c1", "title": "Manual", "sourceUrn": "file::manual", "text": "see figure [12]"}
TEXTS = [
    'It says "see figure [12] and table [1] of the annex" [1].',
    "Er sagt „siehe Abbildung [1] und Tabelle [3]“ [1].",
    "»siehe Abbildung [1] und Tabelle [3]« [1] and «voir la figure [1] et plus» [2]. ”se bild [1] och tabell [2]” [2].",
    "It says 'see figure [1] and the table [2]' [1], and ‘see figure [1] and the table [2]’ [3].",
    "The 19\" rack [1] and the 21\" rack [2]. It's the valves' seat [1] and the dogs' house [2].",
    'A "valve [1]" is a name [2]. 彼は「ポンプの動作電圧[1]は二百三十ボルトです」と言う[1]。次[2]。',
    'No end: "see figure [1] and the table [2]\n\nNext [3]. One [1]. [2] Two [3, 1]. See z. B. this [1], e.g. [2]. Q',
    '"' + "Word [1]. " * 500 + '" [2].',
    "It says '24 V is in figure [1] of it' [2]. In '68 and the '90s the users' rights [1]. Rock 'n' roll [2].",
    'It says “ see figure [1] of it ” [2], " see figure [1] of it " [1] and:"(see figure [1] of it)" [2].',
    'It says "it is 5" wide. See figure [1] of it" [2]. A 19 " rack [1]. And "it is 5" here. Next [1].\nSo [2].',
    "Ein ＂siehe Abbildung [1] dazu＂ [1], ″siehe Abbildung [1] dazu″ [2] und 〝siehe Abbildung [1] dazu〞.",
    "So. [1, page 8] And so. [1 (p. 8); 2, pp. 3–4†L2] So. [1, pages] And so. [Page 8] So.",
    'It says "One two. [2, S. 1] Three four" [1].',
    '𝒳𝒳 "see figure [1] and 𝒳 of it" [1] 【2†𝒳】.',
]
SIGNS = [
    *"ab1 .!。？電\"'’‘“”„«»‹›「」『』[]【】12,†\n(\u0301\u0903\u00a0²ßA𝒳",
    "[1, page 8]", "[1 ", "; 2", " (p. 8)", "|", ":", " S. 3-4]", *"❝❞‟❮❯", "z. B. ", "[1]", "[2, 3]", ' 19" ',
    "one two three four", "s’ ", "x’ ", "Nr. ", ' "', '" ',
    *"＂″〝〞x", ' " ', "'68 ", " ‘90s ", ' 5 " ', '"(', ':"', " 'n' ", " ' t ", '5" A. ', "(", "*",
]  # fmt: skip


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[browser.Tab]:
    """The page without its service."""
    application = web.Application()
    page.add_to(application)
    async with (
        httpserver.serving(application) as url,
        browser.opened(tmp_path, f"{url}/kb/ask") as opened,
    ):
        yield opened


async def written(tab: browser.Tab, *pieces: str) -> None:
    """A question with one passage, and the pieces of its answer."""
    events: list[dict[str, Any]] = [
        {"type": "result", "tool": "fast_vector_search", "payloadType": "chunks", "objects": [FOUND]},
        *({"type": "token", "content": piece} for piece in pieces),
        {"type": "complete", "outcome": "answered", "citations": [{"ref": 1, "sourceUrn": FOUND["sourceUrn"]}]},
    ]
    numbered = json.dumps([{"id": at, **one} for at, one in enumerate(events, 1)])
    await tab.evaluate(f"{{ const turn = begin(); for (const one of {numbered}) receive(turn, one) }}")


@pytest.mark.parametrize(
    ("answer", "buttons"),
    [
        ('It says "see figure [12] and table [1] of the annex" [1].', ["1"]),
        ("Er sagt „siehe Abbildung [1] und Tabelle [1]“.", []),
        ('"see figure [1] and table [1]" [1], and [1] again. «voir la figure [1] de plus» [1].', ["1", "1", "1"]),
        ("No passage has these numbers: [7], [1, 7], 【7†L2】.", ["1"]),
        ("The words [1], 【1†L2】 and [1, 1].", ["1", "1", "1", "1"]),
        ("A page [1, page 8] and two [1, p. 8; 1 (S. 9)], no page [1, 7 pages].", ["1", "1", "1"]),
    ],
)
async def test_marks_of_the_answer_that_name_evidence_are_buttons(
    tab: browser.Tab, answer: str, buttons: list[str]
) -> None:
    for pieces in ([answer], list(answer)):
        await written(tab, *pieces)
        assert await tab.evaluate(BUTTONS.replace("'.answer", "'article:nth-of-type(1) .answer")) == buttons
        # Where all of a text is drawn, a mark is either a button or stays as it was written.
        plain = answer.replace("[1, 7]", "[1][7]").replace("[1, 1]", "[1][1]").replace("【1†L2】", "[1]")
        plain = plain.replace("[1, page 8]", "[1]").replace("[1, p. 8; 1 (S. 9)]", "[1][1]")
        assert await tab.evaluate(SHOWN) == plain
    names = "[...document.querySelectorAll('.cite')].map(one => one.getAttribute('aria-label'))"
    assert set(await tab.evaluate(names)) <= {"Evidence 1: Manual"}


async def test_the_text_is_shown_before_it_is_known_what_it_quotes(tab: browser.Tab) -> None:
    said = 'He says "see figure [1] of'
    await tab.evaluate("globalThis.turn = begin(); 0")
    for one in ({"type": "result", "tool": "t", "objects": [FOUND]}, {"type": "token", "content": f"One [1]. {said}"}):
        await tab.evaluate(f"receive(turn, {json.dumps({'id': 1, **one})})")
    assert await tab.evaluate(SHOWN) == f"One [1]. {said}"
    assert await tab.evaluate(BUTTONS) == ["1"]


def expected(text: str) -> list[list[list[Any]]]:
    """The parts of a text as the page cuts them: [text, whether it is quoted] of each piece."""
    found = []
    for part in quotations.parts(text):
        pieces, at = [], 0
        for span in part.spans:
            pieces += [[part.text[at : span.start], False], [part.text[span.start : span.end], True]]
            at = span.end
        found.append([one for one in [*pieces, [part.text[at:], False]] if one[0]])
    return found


async def test_the_page_cuts_texts_as_the_service_does(tab: browser.Tab) -> None:
    chosen = random.Random(24)
    made = ["".join(chosen.choices(SIGNS, k=chosen.randrange(60))) for _ in range(3000)]
    short = [f"It is {word.title()}. Five [1]. Six" for word in quotations._ABBREVIATIONS.split()]
    texts = [*TEXTS, *short, *made]
    await tab.evaluate(
        "globalThis.cut_up = (text) => { const found = []; for (let one; (one = part(text, true)); "
        "text = text.slice(one.length)) found.push(one.pieces); return found }; 0"
    )
    cut = await tab.evaluate(f"{json.dumps(texts)}.map(cut_up)")
    wrong = [(text, drawn, own) for text, drawn in zip(texts, cut, strict=True) if drawn != (own := expected(text))]
    assert wrong[:3] == []
    assert sum(quoted for parts in cut for pieces in parts for _, quoted in pieces) > 500
