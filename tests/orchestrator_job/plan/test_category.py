"""What a task's text says about it without a model."""

from __future__ import annotations

import re
from typing import Any

import pytest

from crds import pendingtask
from kb import api
from orchestrator_job.plan import category
from tests.conftest import ROOT
from tests.orchestrator_job import workbench

Type = pendingtask.Type


def task(content: str, **fields: Any) -> Any:
    return workbench.task("uid", content, **fields)


@pytest.mark.parametrize(
    ("text", "language", "kind", "expected"),
    [
        ("When is the release of the router?", "en", Type.USER_INPUT, "advice"),
        ("Kdy bude vydání routeru?", "cs", Type.USER_INPUT, "advice"),
        ("Fix the failing test in tests/test_price.py.", "en", Type.USER_INPUT, "single_task"),
        ("Can you send Ann the report?", "en", Type.USER_INPUT, "single_task"),
        ("Oprav padající test.", "cs", Type.USER_TASK, "single_task"),
        ("Quand est la livraison ?", "fr", Type.USER_INPUT, "single_task"),
        ("When can you deliver?", "en", Type.EMAIL, "single_task"),
        ("Design a new application for time sheets.", "en", Type.USER_INPUT, "generative"),
        ("Navrhni koncept nového webu.", "cs", Type.USER_INPUT, "generative"),
        ("Migrate all services to the new cluster.", "en", Type.USER_TASK, "epic"),
        ("Please do:\n- one\n- two\n- three\n- four", "en", Type.USER_INPUT, "epic"),
        ("- one\n- two\n- three\n- four", "en", Type.EMAIL, "single_task"),
    ],
)
def test_the_four_categories(text: str, language: str, kind: Type, expected: str) -> None:
    assert category.of(task(text, type=kind), text, language) is api.TaskCategory(expected)


ONE_LOOK = [
    ("When is the release of the router?", "en"),
    ("Who tests it?", "en"),
    ("What changed in the plan?", "en"),
    ("Wann ist das Release?", "de"),
    ("Kdo testuje router?", "cs"),
]
NOT = [
    ("Fix the release.", "en"),
    ("Can you fix the router?", "en"),
    ("Please test the router?", "en"),
    ("Who will send the invoice?", "en"),
    ("How many disks failed?", "en"),
    ("Why does the pod crash?", "en"),
    ("Who calls with_tax?", "en"),
    ("What does the contract say about notice?", "en"),
    ("What do I like?", "en"),
    ("When is it? Who tests it?", "en"),
    ("Kolik to stojí?", "cs"),
    ("Oprav to?", "cs"),
    ("Quand est la livraison ?", "fr"),
    ("When is it, " + "and when is that, " * 30 + "really?", "en"),
]


@pytest.mark.parametrize(("text", "language"), ONE_LOOK)
def test_one_look_answers_it(text: str, language: str) -> None:
    assert category.one_look(task(text), text, language)


@pytest.mark.parametrize(("text", "language"), NOT)
def test_a_model_plans_what_it_cannot_be_sure_of(text: str, language: str) -> None:
    assert not category.one_look(task(text), text, language)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": Type.EMAIL},
        {"type": Type.USER_TASK},
        {"messages": [{"id": "m1", "text": "And who tests it?"}]},
        {"answers": [{"id": "q1", "text": "The second one."}]},
    ],
)
def test_other_tasks_are_planned(fields: dict[str, Any]) -> None:
    text = "When is the release of the router?"
    assert not category.one_look(task(text, **fields), text, "en")


def test_facets_make_triggers() -> None:
    mail = task("When is it?", type=Type.EMAIL, structured_data={"deadline": "2026-03-01"})
    assert category.facets(mail, "When is it?") == ("email", "deadline", "question")
    assert category.facets(task("x", type=Type.BUG_TRACKER), "It is slow.") == ("issue", "bug_report")
    assert category.facets(task("x"), "The traceback is below.") == ("chat", "bug_report")


PATHS = [
    ("When is the release of the router?", "en", Type.USER_INPUT, ("advice", "respond")),
    ("Explain the design of the router.", "en", Type.USER_INPUT, ("single_task", "respond")),
    ("Summarise the roadmap.", "en", Type.USER_TASK, ("single_task", "respond")),
    ("Write Ann how the test went.", "en", Type.USER_INPUT, ("single_task", "respond")),
    ("Correct the function area in the repository code.", "en", Type.USER_INPUT, ("single_task", "code")),
    ("Fix the failing test in tests/test_price.py.", "en", Type.USER_INPUT, ("single_task", "code")),
    ("Oprav funkci area v repozitáři code.", "cs", Type.USER_TASK, ("single_task", "code")),
    ("Korrigiere die Funktion area im Repository.", "de", Type.USER_TASK, ("single_task", "code")),
    ("Create an issue about the backup in o/r.", "en", Type.USER_INPUT, ("single_task", "tracker_ops")),
    ("Založ tiket o zálohách.", "cs", Type.USER_TASK, ("single_task", "tracker_ops")),
    ("Open an issue about the backup.", "en", Type.USER_INPUT, ("single_task", "tracker_ops")),
    ("Open issues of the storage project?", "en", Type.USER_INPUT, ("advice", "respond")),
    ("Summarise issue #12.", "en", Type.USER_INPUT, ("single_task", "respond")),
    ("Fix the function area and comment on issue #1.", "en", Type.USER_INPUT, ("single_task", "mixed")),
    ("Migrate all services to the new cluster.", "en", Type.USER_TASK, ("epic", "respond")),
    ("Please do:\n- one\n- two\n- three\n- four", "en", Type.USER_INPUT, ("single_task", "respond")),
    ("Please create:\n- one\n- two\n- three\n- four", "en", Type.USER_INPUT, ("epic", "respond")),
    ("Design a new application for time sheets.", "en", Type.USER_INPUT, ("generative", "respond")),
    ("Entwirf eine neue Anwendung für die Buchhaltung.", "de", Type.USER_INPUT, ("generative", "respond")),
    ("Entwickle ein Konzept für ein neues Produkt.", "de", Type.USER_INPUT, ("generative", "respond")),
    ("Migriere alle Dienste auf den neuen Cluster.", "de", Type.USER_TASK, ("epic", "respond")),
    ("Navrhni novou aplikaci pro účetnictví.", "cs", Type.USER_INPUT, ("generative", "respond")),
    ("Migruj všechny služby na nový cluster.", "cs", Type.USER_TASK, ("epic", "respond")),
    ("Přesuň všechny repozitáře na nový server.", "cs", Type.USER_TASK, ("epic", "respond")),
    ("Navrhni novú aplikáciu pre účtovníctvo.", "sk", Type.USER_INPUT, ("generative", "respond")),
    ("Migruj všetky služby na nový klaster.", "sk", Type.USER_TASK, ("epic", "respond")),
    # Words of a design or of an epic are none.
    ("Fix the design of the login button in the repository.", "en", Type.USER_INPUT, ("single_task", "code")),
    ("Write a comment on issue #3 about the new system.", "en", Type.USER_INPUT, ("single_task", "tracker_ops")),
    ("Fix the bug in src/concept.py.", "en", Type.USER_INPUT, ("single_task", "code")),
    ("Close the epic ABC-12 in Jira.", "en", Type.USER_INPUT, ("single_task", "tracker_ops")),
    ("Add milestones to issue #4.", "en", Type.USER_INPUT, ("single_task", "tracker_ops")),
    # What others wrote is answered, whatever it orders.
    ("Migrate all services to the new cluster.", "en", Type.EMAIL, ("single_task", "respond")),
    ("Fix the function area in the repository.", "en", Type.BUG_TRACKER, ("single_task", "respond")),
    # Orders are not known in this language.
    ("Corrige la fonction area du repository.", "fr", Type.USER_INPUT, ("single_task", "respond")),
]


@pytest.mark.parametrize(("text", "language", "kind", "expected"), PATHS)
def test_the_path_of_a_task(text: str, language: str, kind: Type, expected: tuple[str, str]) -> None:
    assert category.path(task(text, type=kind), text, language, outside=True) == expected


def test_the_examples_of_the_page_take_the_paths_that_it_says() -> None:
    table = (ROOT / "docs" / "runs.md").read_text().partition("## What a user orders")[2].partition("| step |")[0]
    rows = re.findall(r"^\| `(\w+)`(?:: ([a-z ]+?))? \| ([^|]+?) \| [^|]*\|$", table, re.MULTILINE)
    actions = {"": "respond", "code": "code", "trackers": "tracker_ops", "a mix": "mixed", "to remember": "remember"}
    assert len(rows) == 8
    for kind, action, example in rows:
        text = example.partition(";")[0]
        found = category.path(task(text), text, "en", outside=True)
        assert found == (kind, actions[action]), example


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Remember that I like coffee without sugar.", "en", True),
        ("Please remember: the release is on Friday.", "en", True),
        ("Merke dir, dass ich Kaffee ohne Zucker mag.", "de", True),
        ("Zapamatuj si, že mám rád kávu bez cukru.", "cs", True),
        ("Zapamätaj si, že mám rád kávu bez cukru.", "sk", True),
        ("Remember when we met?", "en", False),
        ("Remember to call Eve on Friday.", "en", False),
        ("I cannot remember the date of the release.", "en", False),
        ("Remember that I like coffee, and create an issue about sugar.", "en", False),
    ],
)
def test_what_is_to_be_remembered_needs_a_tool(text: str, language: str, expected: bool) -> None:
    found = category.path(task(text, type=pendingtask.Type.USER_TASK), text, language, outside=False)
    assert (found == ("single_task", "remember")) is expected
    assert category.path(task(text, type=pendingtask.Type.EMAIL), text, language, outside=False)[1] != "remember"


def test_without_the_sources_process_nothing_is_coded_or_tracked() -> None:
    for text in ("Correct the function area in the repository.", "Create an issue about the backup."):
        assert category.path(task(text), text, "en", outside=False) == ("single_task", "respond")
    text = "Migrate all services to the new cluster."
    assert category.path(task(text), text, "en", outside=False) == ("epic", "respond")


@pytest.mark.parametrize("pattern", category.UNBOUNDED, ids=lambda pattern: str(pattern.pattern)[:20])
def test_a_place_of_a_text_costs_the_same_whatever_stands_around_it(pattern: re.Pattern[str]) -> None:
    """Without a quantifier that has no bound a pattern looks at a bounded number of characters from each place, so that
    a text that is twice as long costs twice as much."""
    plain = re.sub(r"\\.|\[(?:\\.|[^\]])*\]", "c", pattern.pattern)
    assert not re.search(r"[*+]|\{\d*,\}", plain), "a quantifier without a bound"
    assert all(int(most) <= 40 for most in re.findall(r"\{\d+,(\d+)\}", plain))


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Fix the typo in src/router/lease.py, please.", "code"),
        ("Fix the typo in values-test.yaml.", "code"),
        ("Fix the typo in notes.txt.", "respond"),
        ("Fix the typo in the .python file.", "respond"),
        ("Fix the refactoring of last week.", "code"),
        ("Close SHOP-17.", "tracker_ops"),
        ("Close #17.", "tracker_ops"),
        ("Close the window at /etc/x#17.", "respond"),
        ("Close A-B.", "respond"),
    ],
)
def test_files_and_issues_are_recognized(text: str, action: str) -> None:
    ordered = task(text, type=Type.USER_TASK)
    assert category.path(ordered, text, "en", outside=True)[1] == action


def test_of_a_book_beginning_and_end_are_looked_at() -> None:
    book = "This is what we know. " * 20_000
    for text in (f"Fix the bug in price.py. {book}", f"{book}Fix the bug in price.py."):
        assert category.path(task(text, type=Type.USER_TASK), text, "en", outside=True)[1] == "code"
