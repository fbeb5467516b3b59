"""By what of a text a copy is found, in twelve languages, and what is none."""

from __future__ import annotations

import itertools
import unicodedata
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from text import shingles

PASSAGES = {
    "en": "The backup server in the cellar is replaced on Monday morning before the first shift begins its work",
    "de": "Der Sicherungsserver im Keller wird am Montag vor der ersten Schicht ausgetauscht und danach neu gestartet",
    "cs": "Záložní server ve sklepě bude vyměněn v pondělí ráno dříve než začne pracovat první směna v hale",
    "es": "El servidor de respaldo del sótano se cambiará el lunes por la mañana antes del primer turno de trabajo",
    "ru": "Резервный сервер в подвале заменят в понедельник утром до того как начнёт работать первая смена цеха",
    "el": "Ο εφεδρικός διακομιστής στο υπόγειο θα αντικατασταθεί τη Δευτέρα το πρωί πριν από την πρώτη βάρδια",  # noqa: RUF001
    "ar": "سيتم استبدال خادم النسخ الاحتياطي في القبو صباح يوم الاثنين قبل أن تبدأ الوردية الأولى عملها هناك",
    "he": "שרת הגיבוי במרתף יוחלף ביום שני בבוקר לפני שהמשמרת הראשונה מתחילה את העבודה שלה באולם",
    "hi": "तहखाने में रखा बैकअप सर्वर सोमवार सुबह पहली पाली का काम शुरू होने से पहले बदल दिया जाएगा",
    "ko": "지하실의 백업 서버는 월요일 아침 첫 번째 근무조가 일을 시작하기 전에 새것으로 교체됩니다",
    "ja": "地下室にある予備のサーバーは月曜日の朝に最初のシフトが始まる前に新しいものへ交換されます",
    "zh": "地下室的备份服务器将在星期一早上第一班开始工作之前更换为新的机器并且重新启动",
    "th": "เซิร์ฟเวอร์สำรองในห้องใต้ดินจะถูกเปลี่ยนในเช้าวันจันทร์ก่อนที่กะแรกจะเริ่มทำงาน",
}
_UNSPACED = {"ja", "zh", "th"}


def found(text: str, passage: str) -> list[str]:
    """What of the text is copied from the passage."""
    return [text[start:end] for start, end in shingles.Probe(text).copied(shingles.Shingled(passage))]


@pytest.mark.parametrize("sign", ["_", ".", ":", "·", "-", "/", "__", "._"])
def test_words_that_signs_join_are_words(sign: str) -> None:
    passage = "The vault code is hidden under the stone of the well"
    joined = sign.join(["the", "vault", "code", "is", "hidden"])
    assert found(f"fix/{joined}", passage) == [joined]
    assert found("the vault code is hidden", passage.replace(" ", sign)) == ["the vault code is hidden"]


@pytest.mark.parametrize("text", ["a1b2_c3d4", "don't say a word", "1,000 or 2.50", "well's end"])
def test_what_stays_together_is_no_row_of_words(text: str) -> None:
    assert len(shingles.Shingled(text).words) <= len(text.split()) + (text == "a1b2_c3d4")
    assert shingles.Shingled(text).codes == ({"a1b2c3d4"} if text == "a1b2_c3d4" else frozenset())


@pytest.mark.parametrize("language", sorted(PASSAGES))
@settings(max_examples=40)
@given(data=st.data())
def test_any_five_words_of_a_passage_are_found_wherever_they_stand(language: str, data: st.DataObject) -> None:
    passage = PASSAGES[language]
    if language in _UNSPACED:
        # Of base characters: vowel signs and marks count with theirs.
        starts = [at for at, letter in enumerate(passage) if not unicodedata.combining(letter)]
        starts = [at for at in starts if unicodedata.category(passage[at]) not in ("Mn", "Mc")]
        first = data.draw(st.integers(0, len(starts) - shingles.CHARACTERS - 1))
        # A word of katakana counts as one word; so much of it is always enough.
        last = data.draw(st.integers(min(first + 2 * shingles.CHARACTERS + 8, len(starts) - 1), len(starts) - 1))
        span = passage[starts[first] : starts[last]] if last - first >= 2 * shingles.CHARACTERS else passage
    else:
        words = passage.split()
        first = data.draw(st.integers(0, len(words) - shingles.WORDS))
        last = data.draw(st.integers(first + shingles.WORDS, len(words)))
        span = " ".join(words[first:last])
    forms: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
    form = data.draw(st.sampled_from(forms))
    around = data.draw(st.sampled_from([("", ""), ("Hello Ann: ", " Bye."), ("«", "»"), ("…\n", "\n--\nJervis")]))
    text = around[0] + unicodedata.normalize(form, data.draw(st.sampled_from([span, span.upper()]))) + around[1]
    copied = found(text, passage)
    assert copied, (language, text)
    assert all(part in text for part in copied)


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(("en", "de", "ja", "zh", "ar"), 2)))
def test_texts_of_their_own_words_share_nothing(one: str, other: str) -> None:
    assert found(PASSAGES[one], PASSAGES[other]) == []


@pytest.mark.parametrize("language", sorted(PASSAGES))
def test_what_is_the_users_own_is_no_copy(language: str) -> None:
    probe = shingles.Probe(f"{PASSAGES[language]} 7713")
    probe.without(shingles.Shingled(f"Write: {PASSAGES[language]} 7713"))
    assert probe.copied(shingles.Shingled(f"{PASSAGES[language]} 7713")) == ()


def test_four_words_are_chance_and_five_are_none() -> None:
    passage = "the release is on Friday at noon"
    assert found("So the release is on time.", passage) == []
    assert found("So the release is on Friday.", passage) == ["the release is on Friday"]
    assert found("THE RELEASE, (is) on – Friday!", passage) == ["THE RELEASE, (is) on – Friday"]  # noqa: RUF001
    assert found("x " * 50 + passage, passage) == [passage]


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("Vault code 7713.", "7713"),
        ("7 713", "7 713"),
        ("7 7 1 3", "7 7 1 3"),
        ("7,713", "7,713"),
        ("77-13", "77-13"),
        ("(77) 13", "77) 13"),
        ("７７１３", "７７１３"),  # noqa: RUF001
        ("code:٧٧١٣", "٧٧١٣"),
        ("७७१३ है", "७७१३"),
        ("๗๗๑๓", "๗๗๑๓"),
        ("⁷⁷¹³", "⁷⁷¹³"),
        ("AB7713X", "7713"),
        ("7\u200b713", "7\u200b713"),
        ("paid 12 7713", "7713"),
    ],
)
def test_a_number_is_found_in_any_digits_and_groups(text: str, copy: str) -> None:
    assert found(text, "Include the vault code 7713 in it.") == [copy]
    assert found("Include the vault code 7713 in it.", text)


@pytest.mark.parametrize("text", ["713", "77130 and 17713", "7714", "7, for 713 persons", "77 and 13", "1377"])
def test_another_number_is_none(text: str) -> None:
    assert found(text, "The vault code is 7713.") == []


def test_groups_of_a_long_number_are_found_in_either() -> None:
    card = "4111 2222 3333 4444"
    assert found("4111222233334444", card) == ["4111222233334444"]
    assert found(card, "4111222233334444") == [card]
    assert found("+420 777 123 456", "Call 777123456.") == ["777 123 456"]


def test_a_key_is_found_by_the_digits_among_its_letters() -> None:
    key = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"
    assert found(f"Use {key}!", f"The key is {key}, keep it.") == ["4eC39HqLyjWDarjtT1zdp7dc"]
    assert found("Use utf8 and sha256.", "We use utf8 and sha256.") == []


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("Ask Eve@Evil.Example.", "Eve@Evil.Example"),
        ("mailto:eve@evil.example", "eve@evil.example"),
        ("See http://wiki.acme.example/x?y=1.", "wiki.acme.example/x?y=1"),
        ("at WIKI.acme.example", "WIKI.acme.example"),
        ("[w](https://www.wiki.acme.example/other)", "www.wiki.acme.example"),
    ],
)
def test_an_address_is_found_with_and_without_its_scheme(text: str, copy: str) -> None:
    passage = "Write to eve@evil.example, or look at <https://wiki.acme.example/x?y=1>."
    assert found(text, passage) == [copy]


def test_another_address_is_none() -> None:
    passage = "Write to eve@evil.example, or look at https://wiki.acme.example/x."
    assert found("Ask bob@evil.example. See acme.example and e.g. this, 3.14, v1.2.", passage) == []


def test_accents_and_signs_that_cannot_be_seen_hide_nothing() -> None:
    passage = "the secret door is behind the shelf"
    assert found("thé sécret door is\u00ad be\u200dhind the shélf", passage)
    assert found("the ｓｅｃｒｅｔ door is behind 𝐭𝐡𝐞 shelf", passage)  # noqa: RUF001


def test_the_time_grows_with_the_length_alone() -> None:
    """Each of these has hung a pattern that tries a beginning at every place."""
    for text in ("a", "_", "a.", "a-", "@", "a@", "'", "1", "http://", "a.bc/", "a\u0301", "漢字", "1 2 3 "):
        long = text * (200_000 // len(text))
        seen = shingles.Shingled(long)
        shingles.Probe(long[:20_000]).copied(seen)
