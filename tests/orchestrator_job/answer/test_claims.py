"""Statements, checked against texts."""

from __future__ import annotations

import pytest

from orchestrator_job.answer import claims, evidence_pack

ITEM = evidence_pack.Item(
    id=1, source="email::a", content="The release of the  router\nis on 6 March 2026, says Ann.", origin="RAG"
)


def passages(*texts: str) -> list[claims.Passage]:
    """To compare with."""
    return [claims.Passage(text) for text in texts]


def test_statements_are_sentences_that_state_something() -> None:
    text = (
        "The release is on Friday [email::a]. Who tests it?\n- Ann tests the router, too.\n## What we found:\n"
        "```\nprint('this is no statement at all')\n```\nNot sure.\n"
        "The release is on Friday [email::b].\n1. It takes 3 days in all."
    )
    assert claims.statements(text) == [
        "The release is on Friday.",
        "Ann tests the router, too.",
        "It takes 3 days in all.",
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("The release of the router is on 6 March.", True),
        ("The routers are released on 6 March 2026.", True),
        ("The release of the router is on 7 March.", False),
        ("Globex wants its money back tomorrow.", False),
        ("It is on 6 March 2026.", True),
    ],
)
def test_support(statement: str, expected: bool) -> None:
    assert claims.supported(statement, passages("Something else.", ITEM.content)) is expected


def test_nothing_supports_without_passages() -> None:
    assert not claims.supported("The release is on Friday.", [])


def test_marks() -> None:
    text = "The date  is open. So the DATE is open [unconfirmed]. Ann knows."
    assert claims.marked(text, ["The date is open."]) == (
        "The date  is open [unconfirmed]. So the DATE is open [unconfirmed]. Ann knows."
    )
    assert claims.marked(text, ["Another one (with * marks)."]) == text


# --- languages ------------------------------------------------------------------------------------------------------

BACKUP = (
    "The nightly backup of the storage cluster runs every Friday on the server vega-7 and takes three hours. It began "
    "on 6 March 2026 at 3 pm and costs 1,234.50 EUR; Ann Novak of Globex is its owner."
)
LAGER = (
    "Die Sicherung läuft jeden Freitag um 15:00 auf dem Server vega-7 und dauert drei Stunden; seit dem 6. März 2026."
)


@pytest.mark.parametrize(
    ("statement", "spoken", "passage", "expected"),
    [
        ("Noční záloha úložiště běží každý pátek na serveru vega-7 a trvá tři hodiny.", "cs", BACKUP, "found"),
        ("Noční záloha úložiště běží každý pátek na serveru vega-8 a trvá tři hodiny.", "cs", BACKUP, "none"),
        ("Záloha trvá 3 hodiny a začala 6. března 2026 v 15:00.", "cs", BACKUP, "found"),
        ("Záloha začala 7. března 2026 v 15:00.", "cs", BACKUP, "none"),
        ("Záloha začala 2026-03-06 a stojí 1 234,50 EUR.", "cs", BACKUP, "found"),
        ("Záloha začala 2026-03-06 a stojí 1 235,50 EUR.", "cs", BACKUP, "none"),
        ("Záloha běží každý pátek v noci.", "cs", BACKUP, "unchecked"),
        ("Správcem zálohy je Petr Svoboda.", "cs", BACKUP, "unchecked"),
        ("Vlastníkem zálohy je Novaková z Globexu.", "cs", BACKUP, "found"),
        ("Das Backup läuft jeden Freitag auf dem Server vega-7.", "de", BACKUP, "found"),
        ("Das Backup gehört dem Einkauf.", "de", BACKUP, "unchecked"),
        ("The backup runs each Friday at 3 pm on vega-7.", "en", LAGER, "found"),
        ("The backup of vega-7 takes 3 hours.", "en", LAGER, "found"),
        ("The backup of vega-7 takes 4 hours.", "en", LAGER, "none"),
        ("备份每周五在vega-7服务器上运行。", "zh", BACKUP, "found"),
        ("백업은 매주 금요일 vega-7에서 실행됩니다.", "ko", BACKUP, "found"),
        ("Резервная копия создаётся каждую пятницу.", "ru", BACKUP, "unchecked"),
        # In one language it is as before.
        ("The contract of Globex ends next year.", "en", BACKUP, "none"),
    ],
)
def test_between_languages_what_does_not_depend_on_them_is_compared(
    statement: str, spoken: str, passage: str, expected: str
) -> None:
    assert claims.support(statement, spoken, passages("Unrelated.", passage)) == expected


def test_statements_of_scripts_without_blanks() -> None:
    said = "备份每周五运行。需要三个小时以上吗？它在服务器上运行！\n- 由安娜负责管理这个备份 [wiki::1]。不。"  # noqa: RUF001
    assert claims.statements(said) == ["备份每周五运行。", "它在服务器上运行！", "由安娜负责管理这个备份。"]  # noqa: RUF001
    assert claims.statements("バックアップは毎週金曜日に実行されます。") == ["バックアップは毎週金曜日に実行されます。"]
    assert claims.statements("การสำรองข้อมูลทำงานทุกวันศุกร์") == ["การสำรองข้อมูลทำงานทุกวันศุกร์"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("备份每周五在服务器上运行。", True),
        ("备份由安娜负责。", True),
        ("合同规定了三个月的通知期。", False),
        ("备份每周五运行4次。", False),
    ],
)
def test_support_in_scripts_without_blanks(statement: str, expected: bool) -> None:
    passage = "存储集群的夜间备份每周五在服务器上运行，大约需要三个小时，由安娜负责管理。"  # noqa: RUF001
    assert claims.supported(statement, passages(passage)) is expected


def test_a_date_does_not_end_a_sentence() -> None:
    text = "Záloha začala 6. března 2026 v noci. Trvá asi tři hodiny v roce 2026. Pak skončí a je klid."
    assert claims.statements(text) == [
        "Záloha začala 6. března 2026 v noci.", "Trvá asi tři hodiny v roce 2026.", "Pak skončí a je klid."
    ]  # fmt: skip


def test_what_was_not_checked_is_marked_so() -> None:
    text = "Záloha běží každý pátek. Běží v noci."
    assert claims.marked(text, ["Záloha běží každý pátek."], claims.NOT_CHECKED) == (
        "Záloha běží každý pátek [not checked]. Běží v noci."
    )
