"""The language of short questions and of longer texts, without a model."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from text import language

SAID = {
    "en": ["When is the release of the router?", "Fix the failing test in tests/test_price.py",
           "Please replace the failed disk of vega-7 by Friday. Send the invoice to Ann."],
    "cs": ["Kdy bude vydání routeru?", "kdy bude vydani routeru", "Oprav padající test v repozitáři shop",
           "Dobrý den, prosím o zaslání faktury za říjen. Děkuji", "Jaky je stav projektu?"],
    "sk": ["Kedy bude vydanie routera?", "Prosím o zaslanie faktúry za október. Ďakujem", "Aký je stav projektu?"],
    "de": ["Wann ist das Release?", "Bitte die Rechnung bis Freitag schicken", "Wer testet den Router?"],
    "pl": ["Kiedy będzie wydanie routera?", "Proszę o przesłanie faktury za październik"],
    "fr": ["Quand est la livraison du routeur ?", "Merci d'envoyer la facture avant vendredi"],
    "es": ["¿Cuándo es el lanzamiento del router?", "Por favor envíe la factura antes del viernes"],
    "it": ["Quando esce il router?", "Per favore invii la fattura entro venerdì"],
    "pt": ["Quando é o lançamento do roteador?", "Por favor envie a fatura até sexta-feira"],
    "nl": ["Wanneer is de release van de router?", "Stuur de factuur graag voor vrijdag"],
    "sv": ["När är releasen av routern?", "Skicka fakturan före fredag, tack"],
    "da": ["Hvornår er udgivelsen af routeren?"],
    "no": ["Når er utgivelsen av ruteren?"],
    "fi": ["Milloin reitittimen julkaisu on?"],
    "hu": ["Mikor lesz a router kiadása?"],
    "ro": ["Când este lansarea routerului?"],
    "hr": ["Kada će biti izdanje routera?"],
    "sl": ["Kdaj bo izdaja usmerjevalnika?"],
    "tr": ["Yönlendiricinin sürümü ne zaman?"],
    "lt": ["Kada bus išleistas maršrutizatorius?"],
    "lv": ["Kad būs maršrutētāja izlaidums?"],
    "et": ["Millal ruuter välja tuleb?"],
    "ca": ["Quan és el llançament del router?"],
    "id": ["Kapan rilis router ini?"],
    "vi": ["Khi nào phát hành bộ định tuyến?"],
    "ru": ["Когда выпуск роутера?", "Пожалуйста, пришлите счёт до пятницы"],
    "uk": ["Коли буде випуск роутера?", "Будь ласка, надішліть рахунок"],
    "bg": ["Кога ще бъде пуснат рутерът?"],
    "sr": ["Када ће бити издање рутера?"],
    "mk": ["Кога ќе биде издадена верзијата?"],
    "be": ["Калі будзе выпуск роўтара?"],
    "ar": ["متى إصدار الموجه؟"],
    "fa": ["چه زمانی روتر منتشر می شود؟"],
    "ur": ["راؤٹر کب جاری ہوگا؟ یہ کیا ہے"],
    "el": ["Πότε είναι η κυκλοφορία;"],
    "he": ["מתי השחרור?"],
    "zh": ["路由器什么时候发布？"],
    "ja": ["ルーターのリリースはいつですか", "公開日はいつ"],
    "ko": ["라우터 출시는 언제인가요?"],
    "hi": ["राउटर कब जारी होगा?"],
    "th": ["เราเตอร์ออกเมื่อไหร่"],
}  # fmt: skip


@pytest.mark.parametrize(("expected", "text"), [(name, text) for name, texts in SAID.items() for text in texts])
def test_a_sentence(expected: str, text: str) -> None:
    assert language.detect(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "12345", "vega-7", "OK", "https://example.org/the/and/of", "the-and@of.example", "```\nthe and of\n```",
     "`the of`", "> the quoted and the old"],
)  # fmt: skip
def test_what_says_nothing(text: str) -> None:
    assert language.detect(text) is None
    assert language.of([text]) == language.DEFAULT
    assert language.of([text], "cs") == "cs"


def test_code_and_quotations_do_not_count() -> None:
    text = "Kdy to bude?\n> When will it be and who is on it?\n```\nif this is not that: return the value of it\n```"
    assert language.detect(text) == "cs"


def test_the_first_text_that_says_it() -> None:
    """A person who changes the language is answered in the new one; "ok" changes nothing."""
    assert language.of(["ok", "Wann ist das Release?", "When is the release?"]) == "de"


def texts(name: str, kind: str) -> list[str]:
    lines = (ROOT / "tests" / "kb" / "languages" / f"{name}.{kind}.tsv").read_text(encoding="utf-8").splitlines()
    return [max(line.split("\t"), key=len) for line in lines if line]


@pytest.mark.parametrize("name", ["cs", "de", "en", "ja", "ru"])
def test_questions_and_notes_that_it_was_not_made_for(name: str) -> None:
    """Those of the tests of retrieval: short, with many names."""
    for kind, least in (("questions", 0.97), ("notes", 0.7)):
        found = [language.detect(text) for text in texts(name, kind)]
        wrong = [one for one in found if one not in (name, None)]
        assert found.count(name) >= least * len(found)
        assert len(wrong) <= 0.03 * len(found)


def test_a_word_is_scanned_once_for_an_address() -> None:
    """Counted are the characters that are scanned from every place before the sign of an address is missed."""
    scanned = re.compile(language.ADDRESS.partition("@[")[0], re.ASCII)
    text = "x" * 3000 + " " + "0-" * 1500
    found = [scanned.match(text, place) for place in range(len(text))]
    assert sum(len(one.group()) for one in found if one is not None) == len(text) - 1
    assert language.detect("Kdy to bude? when.it.is@for.the.week.to.be") == "cs"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("ja", "会議をbob@example.comに送ってください"),
        ("zh", "請把報告寄給ann@example.com"),
        ("ja", "Slack の #general に deploy の結果を post してください"),
        ("ja", "issue #13 を閉じて https://git.example.com/o/r/issues/13"),
        ("ja", "https://git.example.com/o/r/issues/13を閉じて"),
        # Too little for a language, but enough for a script.
        ("ru", "Отправь report.pdf на ann@example.com"),
        ("en", "Please send the report to 田中さん at ann@example.com."),
    ],
)
def test_names_and_addresses_in_latin_letters(expected: str, text: str) -> None:
    assert language.detect(text) == expected


def test_long_texts_are_read_in_part() -> None:
    assert language.detect("When is the release? " * 200_000) == "en"
