"""Which signs of a text begin and end quotations: quotation marks, apostrophes, years, inches, minutes."""

# ruff: noqa: RUF001 -- quotation marks of many languages are what is tested

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text import quotations
from text.quotations import Verdict

EVIDENCE = {
    1: {
        quotations.plain(one)
        for one in (
            "The pump runs at 400 V in normal operation. Die Pumpe läuft mit 400 V. (400 V) is the voltage of it.",
            'The rack is 19" wide and made of steel. The rack is 19 " wide. It\'s 5" wide. Die Pumpe läuft.',
            "The rack holds four servers of the cluster. In the '90s the pumps' voltage was 5' high.",
            "Rock 'n' roll was here in the '90s. The voltage of it is 230. 400 V is the rated voltage of the pump.",
            "24 V is the voltage of both pumps. The operating voltage of the pumps is high in summer.",
        )
    }
}
TRUE = [
    "In the '90s the pumps of the old users' hall ran well [1].",
    "In the ‘90s the pumps of the old users’ hall ran well [1].",
    "In '68 the pump of the old users' hall ran well [1].",
    "In the '90s and the '80s they didn't run at all [1]. In '05, '06 and '07 they did, don't worry.",
    "Rock 'n' roll in the '90s wasn't a pump's job [1].",
    """It is 5' 11" high and 6' 2" wide, or 5' 11" and 6' 2" [1].""",
    """It is 5 ' 11 " high and 6 ' 2 " wide and so on [1].""",
    'The rack is 19" wide, the unit is 21" deep and the gap is 2" [1].',
    'The rack is 19 " wide, the unit is 21 " deep and the gap is 2 " [1].',
    """It takes 5' and 30" for the pump, then 6' and 20" of rest [1].""",
    """At 48° 51' 24" N and 2° 21' 7" E the pump stands [1].""",
    "At 48° 51′ 24″ N and 2° 21′ 7″ E the pump stands [1]. It is 19″ wide and 21″ deep [1].",
    "The 19″ rack: ″The rack holds four servers of the cluster″ [1].",
    'The 19" rack: "The rack holds four servers of the cluster" [1].',
    'The 19 " rack: "The rack holds four servers of the cluster" [1].',
    'The 19 " rack. It says “The rack holds four servers of the cluster” [1]. And 21 " too.',
    'It says "the voltage of it is 230" for the 19" rack [1].',
    'It says "the voltage of it is 230". The rack is 19" wide [1]. The gap is 2" [1].',
    'It says "the voltage of it is 230" and:"(400 V) is the voltage of it" [1].',
    'It says "the voltage of it is 230". And:" (400 V) is the voltage of it " [1]',
    'It says "the voltage of it is 230" [1]. The rack is 19". And so on, the 5" gap.',
    '[1] says "the voltage of it is 230". The rack stands in hall two [1]. "Die Pumpe läuft mit 400 V" [1].',
    'It says "The rack is 19" wide" [1].',
    'It says "The rack is 19" wide and made of steel" [1]. Next.',
    'It says "The rack is 19 " wide" [1].',
    'It says " The rack is 19" wide and made of steel " [1].',
    """It says "It's 5" wide. Die Pumpe läuft" [1]""",
    "It says 'Rock 'n' roll was here in the '90s' [1].",
    "It says ‘Rock ’n’ roll was here in the ’90s’ [1].",
    """It says "Rock 'n' roll was here in the '90s" [1].""",
    "It says '400 V is the rated voltage of the pump' [1].",
    "It says ‘400 V is the rated voltage of the pump’ [1].",
    "It says '24 V is the voltage of both pumps' [1].",
    "It says “ 400 V is the rated voltage of the pump ” [1].",
    'It says " 400 V is the rated voltage of the pump " [1].',
    'It says:"(400 V) is the voltage of it" [1].',
    "The users' rights, the owners' duties and the pumps' voltage don't differ [1].",
    "The users’ rights, the owners’ duties and the pumps’ voltage don’t differ [1].",
    "The users ' rights and the owners ' duties don ' t differ from it ' s law [1].",
    "The derivative y' of y and y'' + y = 0, f'(x) = 2x and g'(x) = 3x hold [1].",
    'The equation y" + y = 0 of the pump has the solution y [1]. So y" = -y.',
    """Use print("the pump") and say 'ok' [1].""",
    """A 1/2" pipe, a 3½" pipe and a 2.5" pipe are there [1]. And 5'-11" too, or 5'11".""",
    "„Die Pumpe läuft mit 400 V“ [1] und ,,Die Pumpe läuft mit 400 V“ [1].",
    ",,Die Pumpe läuft mit 400 V“ und sonst nichts [1]. ,,Die Pumpe läuft mit 400 V“ [1].",
    "« Die Pumpe läuft mit 400 V » [1], et « Die Pumpe läuft mit 400 V » [1].",
    "„ Die Pumpe läuft mit 400 V “ [1].",
    "❝ Die Pumpe läuft mit 400 V ❞ [1], ❮Die Pumpe läuft mit 400 V❯ [1] und „Die Pumpe läuft mit 400 V‟ [1].",
    "‟Die Pumpe läuft mit 400 V” [1].",
    "The '24 model's pump and the '25 model's rack aren't the same [1].",
    "'Twas the pumps' voltage in '68, '69 and '70 [1].",
    "The pump's in the hall of '68's owners' house [1]. ",
    """The class of '68 had "The rack holds four servers of the cluster" [1].""",
    "The pump of '68 has 'The rack holds four servers of the cluster' [1].",
    """It is written "in summer" and 'in winter' and 5" [1].""",
    'The voltage is "400 V" at 5 " and "230 V" at 6 " of it [1].',
    """From 6'2" to 6'4" it's fine, said the pumps' owner: "The rack holds four servers of the cluster" [1].""",
    'Sizes: 3" and 4" [1].\n- 3" pipe: "Die Pumpe läuft mit 400 V" [1]\n- 4" pipe: "The rack holds four servers" [1]',
    """The phrase "the operating voltage of the pumps" is used [1]. The operators' manual doesn't say so.""",
    "The phrase 'the operating voltage of the pumps' is used [1]. The operators' manual doesn't say so.",
    "The phrase ‘the operating voltage of the pumps’ is used [1]. The operators’ manual doesn’t say so.",
    "[1] uses ‘the operating voltage of the pumps’. The operators’ manual doesn’t say so. It is for users’.",
    '| the second pump of it | " | [1] |\n',
]
FALSE = [
    "‘230 V is the rated voltage of the pump’ [1]",
    "'230 V is the rated voltage of the pump' [1]",
    "'24 V is the rated voltage of the pump' [1]",
    "‘24 V is the rated voltage of the pump’ [1]",
    "'24 V is the rated voltage of all pumps' [1]",
    "“ the pump runs at 230 V in normal operation ” [1]",
    "“ the pump runs at 230 V in normal operation [1]",
    '" the pump runs at 230 V in normal operation " [1]',
    '" the pump runs. It has 230 V in normal operation " [1]',
    '" the pump runs at 230 V in normal operation" [1]',
    '"the pump runs at 230 V in normal operation " [1]',
    '" the pump runs at 230 " [1]',
    '"\nthe pump runs at 230 V in normal operation\n" [1]',
    ':"(230 V) is the rated voltage of the pump" [1]',
    ':" the pump runs at 230 V in normal operation " [1]',
    '("(230 V) is the rated voltage of the pump") [1]',
    "＂the pump runs at 230 V in normal operation＂ [1]",
    "″the pump runs at 230 V in normal operation″ [1]",
    "〝the pump runs at 230 V in normal operation〞 [1]",
    "❝the pump runs at 230 V in normal operation❞ [1]",
    "❮the pump runs at 230 V in normal operation❯ [1]",
    "‟the pump runs at 230 V in normal operation” [1]",
    "„the pump runs at 230 V in normal operation‟ [1]",
    """"It's 5" wide. Die Pumpe läuft mit 500 V" [1]""",
    """"It's 5" wide.\nDie Pumpe läuft mit 500 V" [1]""",
    '"The rack is 19" wide and made of gold" [1]',
    '"The rack is 19". It is made of gold" [1]',
    '"The rack is 19", 21" deep and made of gold" [1]',
    '"The rack is 19 " wide and made of gold" [1]',
    '"The rack is 19" wide. It is 21" deep. It is made of gold" [1]',
    "'The rack is 5' wide and made of gold' [1]",
    "‘In the ’90s the pumps’ voltage was gold’ [1]",
    "‘In the ’90s the pumps’ voltage. Was it gold’ [1]",
    '19 " rack: “the pump runs at 230 V” [1]',
    "In '68 it said 'the pump runs at 230 V' [1]",
    """In '68 it said " the pump runs at 230 V " [1]""",
    '" the pump “X” runs at 900 V " [1]',
    "' the pump runs at 230 volts ' [1]",
    "‘ the pump runs at 230 volts ’ [1]",
    '**"**the pump runs at 230 V**"** [1]',
    "“230 V is the rated voltage of the pump” [1]",
    '"230 V is the rated voltage of the pump" [1]',
    "'230 V is the rated voltage, don't ask, of the pump' [1]",
    "‘230 V is the users’ voltage of the pump’ [1]",
    'said"the pump runs at 230 V" [1]',
    '"The voltage of it is 230" and "the pump runs at 900 V" [1]',
    '"The voltage of it is 230". Then " the pump runs at 900 V " [1]',
    "„ Die Pumpe läuft mit 500 V “ [1]",
    "'12,500 V is the voltage of it' [1]",
    "'10.5 V is the voltage of it' [1]",
    "'5 V is the voltage of it' [1]",
    "'90s pumps ran at 900 V always' [1]",
]
BEFORE = [
    "",
    "The manual says ",
    'The 19" pump: ',
    "In the '90s it was so: ",
    "It's the users' pump: ",
    'It is "230". ',
]


def wrong(text: str) -> list[str]:
    found = [one for part in quotations.parts(text) for one in part.quotations()]
    return [one.text for one in found if quotations.judge(one, EVIDENCE).verdict is not Verdict.SUPPORTED]


@pytest.mark.parametrize("text", TRUE)
def test_apostrophes_years_and_sizes_are_no_quotation_marks(text: str) -> None:
    assert wrong(text) == []
    assert wrong(f"{text} Next one. {text}") == []


@pytest.mark.parametrize("text", FALSE)
@pytest.mark.parametrize("before", BEFORE)
def test_an_invention_is_compared_whatever_its_first_sign_is_followed_by(before: str, text: str) -> None:
    assert wrong(f"{before}{text}. Next one.")
    assert wrong(f'"The rack holds four servers of the cluster" [1] and {text}')


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('It says "it is 230". Next. One', ['It says "it is 230". ', "Next. ", "One"]),
        ('"it is 19" wide. And "so" on. One', ['"it is 19" wide. ', 'And "so" on. ', "One"]),
        ('"It is 19" wide. And so" on. One', ['"It is 19" wide. And so" on. ', "One"]),
        ('"It is 19" wide.\nAnd so" on. One', ['"It is 19" wide.\nAnd so" on. ', "One"]),
        ('"It is 19" wide.\n\nAnd so" on. One', ['"It is 19" wide.\n', "\n", 'And so" on. ', "One"]),
        ("In '68 it was. In '90s style. One", ["In '68 it was. ", "In '90s style. ", "One"]),
        ('A 19 " rack. It is. One', ['A 19 " rack. ', "It is. ", "One"]),
        ('He says " one. Two " here. One', ['He says " one. Two " here. ', "One"]),
        ("[20,\n\n2] is no mark. One", ["[20,\n", "\n", "2] is no mark. ", "One"]),
    ],
)
def test_what_is_open_is_decided_by_what_comes(text: str, parts: list[str]) -> None:
    assert [one.text for one in quotations.parts(text)] == parts


def test_a_quotation_with_a_number_at_its_end_keeps_its_own_mark() -> None:
    text = '[1] says "the voltage of it is 230". The rack stands in hall two [2].'
    assert [one.marks for one in quotations.find(text)] == [(1,)]


PIECES = st.lists(
    st.sampled_from([*TRUE, *FALSE, "\n", "\n\n", " ", ' 19 " ', "‘68 ", "'68 ", ' " ', '"(', "″"]), max_size=4
)


@given(PIECES, st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_signs_mean_the_same_in_whatever_pieces_they_come(texts: list[str], sizes: list[int]) -> None:
    text, at, scanner = " ".join(texts), 0, quotations.Scanner()
    found: list[quotations.Part] = []
    while at < len(text):
        size = sizes[at % len(sizes)]
        found += scanner.feed(text[at : at + size])
        at += size
    assert [*found, *scanner.end()] == quotations.parts(text)
    assert "".join(one.text for one in found) == text[: sum(len(one.text) for one in found)]
