"""What kind of task it is, as far as its text says it without a model. Pure.

A text may be long, and is looked at between two steps of an event loop: patterns for it have no quantifier without a
bound, so that each place of a text costs the same whatever stands around it, and of a very long one beginning and end
are looked at.

The four categories are those of seed 001 "Significance Filter". They go into the prompt of the plan, and a question
that one look into what the team knows answers gets its plan without a model at all.
"""

from __future__ import annotations

import re
from enum import StrEnum

from crds import pendingtask
from kb import api
from orchestrator_job.model import excerpt
from orchestrator_job.plan import order_verbs
from orchestrator_job.store import task_memory

_SHORT = 300
"""Characters of a question that one delegation can answer."""
_SEEN = 100_000
"""Characters of a text that are looked at."""
_EPIC_PARTS = 4
"""Items of a list that make a task an epic."""

_NOUNS_TOO = frozenset(
    (
        *("update", "review", "run", "test", "build", "release", "change", "order", "book", "pay", "plan", "draft"),
        *("answer", "make", "set", "find", "list", "compare", "check", "document", "design", "plane", "lege", "baue"),
        *("comment", "open"),
    )
)
_PLEASE = frozenset(("please", "you", "bitte", "prosím", "prosim", "můžeš", "můžete", "kannst", "können", "sie"))
_AND = {"en": ("and", "then"), "de": ("und", "dann"), "cs": ("a", "pak", "potom"), "sk": ("a", "potom")}

# Orders that only look something up or work something out: an answer is all that they want.
_LOOKS = frozenset(
    (
        *("find", "list", "compare", "check", "review", "answer", "reply", "summarise", "summarize", "translate"),
        *("calculate", "compute", "remember", "remind", "antworte", "beantworte", "berechne", "prüfe", "erinnere"),
        *("merke", "fasse", "übersetze", "vergleiche", "odpověz", "spočítej", "spočítejte", "zapamatuj", "připomeň"),
        *("přelož", "shrň", "shrňte", "zkontroluj", "porovnej", "odpovedz", "spočítaj"),
    )
)

# An order to keep a fact, at the beginning of a sentence: "I do not remember when" and "remember to call" are none.
_REMEMBER = re.compile(
    r"(?:^|[.!?])[ \t]*(?:(?:please|bitte|prosím|prosim),?\s+)?(?:remember\b(?!\s+(?:to|when|how|what|who|where|why)\b)"
    r"|keep in mind\b|merke?\s+dir\b|merken\s+sie\s+sich\b|(?:za)?pamatuj(?:te)?\s+si\b|zapamätaj(?:te)?\s+si\b)",
    re.IGNORECASE | re.MULTILINE,
)

# What is worked on in a repository and in a tracker, and the orders that change it there.
_CODE = re.compile(
    r"\b(?:repositor(?:y|ies)|repo|code|codebase|functions?|methods?|class(?:es)?|modules?|branch(?:es)?|bugs?"
    r"|unit tests?|failing tests?|tests? (?:for|in))\b"
    r"|\b(?:refactor|funk[cz]|repozitář|repozitár|kód|metod|tříd|větv|chyb|padající test|klasse|quelltext|funktion"
    r"|zweig|fehler)"
    # The end of the name of a file.
    r"|[\w-]\.(?:py|js|ts|tsx|go|java|kt|rs|c|cc|cpp|h|cs|rb|php|sql|sh|yaml|yml|toml)\b",
    re.IGNORECASE,
)
_CODE_ORDERS = frozenset(
    (
        *("fix", "repair", "correct", "implement", "refactor", "rename", "add", "change", "remove", "delete", "write"),
        *("update", "commit", "push", "move", "korrigiere", "repariere", "implementiere", "ändere", "entferne", "füge"),
        *("lösche", "schreibe", "schreib", "erstelle", "oprav", "opravte", "přidej", "přidejte", "změň", "změňte"),
        *("uprav", "upravte", "odstraň", "smaž", "napiš", "napište", "pridaj", "zmeň", "odstráň", "napíš"),
    )
)
_TRACKER = re.compile(
    r"\b(?:issues?|tickets?|jira|story|stories|vorgang|vorgänge)\b|\b(?:tiket|úkol|požadav)"
    r"|(?<![\w/])#\d|\b[A-Z][A-Z0-9]{1,30}-\d{1,12}\b"
)
_TRACKER_ORDERS = frozenset(
    (
        *("create", "open", "close", "assign", "comment", "add", "write", "update", "move", "change", "delete"),
        *(
            "erstelle",
            "erzeuge",
            "schließe",
            "füge",
            "schreibe",
            "aktualisiere",
            "ändere",
            "lösche",
            "založ",
            "založte",
        ),
        *("vytvoř", "vytvořte", "zavři", "přiřaď", "přidej", "přidejte", "napiš", "napište", "aktualizuj", "uprav"),
        *("změň", "vytvor", "pridaj", "zmeň"),
    )
)

# Subjects of a specialist: a question about them is not answered by looking into what the team knows alone.
_SPECIAL = re.compile(
    r"\b(?:pods?|deployments?|cluster|namespace|pipelines?|ci|builds?|crash\w*|restart\w*"
    r"|sum|total|average|percent\w*|how (?:much|many)|součet|celkem|kolik|průměr\w*|summe|insgesamt|wie ?viele?"
    r"|calls?|callers?|called|function|method|volá\w*|funkc\w*|funktion|vulnerab\w*|cve|secrets?|zraniteln\w*"
    r"|clause|contract|smlouv\w*|klauzul\w*|vertrag\w*|klausel|appointments?|calendar|kalend\w*|schůzk\w*|termin\w*"
    r"|i|me|my|mine|mně|mi|můj|moje|moji|moje|ich|mir|mich|mein\w*)\b",
    re.IGNORECASE,
)
_MAKES = re.compile(
    r"\b(?:design|invent|concept|from scratch|new (?:application|app|product|service|system|project|website)"
    r"|brainstorm|proposals? for|návrh|koncept|od nuly|nov(?:ou|ý|é|ú) (?:aplikaci|aplikáciu|systém|produkt|službu)"
    r"|entwurf|konzept|neue[sn]? (?:anwendung|produkt|system|dienst|projekt))\b",
    re.IGNORECASE,
)
"""What is designed, where one of these orders is given."""
_MAKING = frozenset(
    (
        *("design", "draft", "create", "make", "build", "plan", "entwirf", "entwerfe", "entwickle", "erstelle", "baue"),
        *("konzipiere", "navrhni", "navrhněte", "vymysli", "vytvoř", "vytvořte", "vytvor", "připrav", "priprav"),
    )
)
_DESIGNS = frozenset(("design", "entwirf", "entwerfe", "konzipiere", "navrhni", "navrhněte", "vymysli"))
"""Those that are enough by themselves."""
_LARGE = re.compile(
    r"\b(?:epic|roadmap|milestones?|migrat\w+|rewrite|whole (?:project|system)|all (?:repositories|services|teams)"
    r"|milník\w*|migrac\w*|migruj\w*|celý (?:projekt|systém)|všechny (?:služby|repozitáře|týmy)"
    r"|míľnik\w*|migráci\w*|všetky (?:služby|repozitáre|tímy)"
    r"|meilensteine?|migrier\w+|gesamte[sn]? (?:projekt|system)|alle (?:dienste|repositories|teams))\b",
    re.IGNORECASE,
)
_KEPT_BY_TRACKERS = re.compile(r"epic|roadmap|milestones?|milník\w*|míľnik\w*|meilensteine?", re.IGNORECASE)
_ONE_ISSUE = re.compile(r"(?<![\w/])#\d+|\b[A-Z][A-Z0-9]+-\d+\b")
"""Beside it what trackers keep is no size of the task: \"Close the epic ABC-12\"."""
_ITEM = re.compile(r"^[ \t]{0,40}(?:[-*•]|\d{1,2}[.)])[ \t]{1,40}\S", re.MULTILINE)
_BUG = re.compile(
    r"\b(?:bugs?|errors?|exception|traceback|fails?|failed|failing)\b|\b(?:crash|chyb|fehler)", re.IGNORECASE
)
UNBOUNDED = (_CODE, _TRACKER, _MAKES, _ITEM, _BUG)
"""The patterns by which a whole text is searched."""
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCES = re.compile(r"[.!?？؟。]+(?:\s|$)")  # noqa: RUF001

_TYPES = {
    pendingtask.Type.EMAIL: "email",
    pendingtask.Type.WIKI: "wiki",
    pendingtask.Type.BUG_TRACKER: "issue",
    pendingtask.Type.GIT: "git",
    pendingtask.Type.USER_INPUT: "chat",
    pendingtask.Type.USER_TASK: "order",
    pendingtask.Type.SCHEDULED: "scheduled",
    pendingtask.Type.LINK: "link",
    pendingtask.Type.MEETING: "meeting",
}


class Action(StrEnum):
    """What a task has done, by the names of seed 001 "Significance Filter"."""

    RESPOND = "respond"
    CODE = "code"
    TRACKER = "tracker_ops"
    MIXED = "mixed"
    REMEMBER = "remember"
    """It is an answer for the seed. Here a tool is needed for it."""


def path(task: task_memory.TaskMemory, text: str, language: str, *, outside: bool) -> tuple[api.TaskCategory, Action]:
    """Category and action by which the legacy graph works on a task. Anything but an answer needs an order of the user,
    in a language whose orders are known: what others wrote decides nothing about what is done, and a question costs
    what it always has. `outside`: there are repositories and trackers to work on."""
    text = excerpt.edges(text, _SEEN)
    ordered = _ordered(text, language) if task.asked_by_user else frozenset()
    kind = of(task, text, language)
    if kind is api.TaskCategory.ADVICE:
        return kind, Action.RESPOND
    if task.asked_by_user and not ordered - _LOOKS and remembers(text):
        return api.TaskCategory.SINGLE_TASK, Action.REMEMBER
    if not ordered - _LOOKS:
        return api.TaskCategory.SINGLE_TASK, Action.RESPOND
    if kind is not api.TaskCategory.SINGLE_TASK or not outside:
        return kind, Action.RESPOND
    codes = bool(ordered & _CODE_ORDERS) and _CODE.search(text) is not None
    tracks = bool(ordered & _TRACKER_ORDERS) and _TRACKER.search(text) is not None
    if codes and tracks:
        # "Fix the bug of issue #1" has one order, which is the code's.
        of_tracker = _TRACKER_ORDERS - _CODE_ORDERS | {"update"}
        return kind, Action.MIXED if ordered & of_tracker and ordered & _CODE_ORDERS - {"update"} else Action.CODE
    return kind, Action.CODE if codes else Action.TRACKER if tracks else Action.RESPOND


def of(task: task_memory.TaskMemory, text: str, language: str) -> api.TaskCategory:
    """ADVICE: something is asked, nothing has to be done. GENERATIVE: something new is designed first. EPIC: several
    goals. SINGLE_TASK: all else, one thing to do."""
    text = excerpt.edges(text, _SEEN)
    if task.asked_by_user and asks(text) and not orders(text, language):
        return api.TaskCategory.ADVICE
    making = _ordered(text, language) & _MAKING if task.asked_by_user else frozenset()
    if making & _DESIGNS or (making and _MAKES.search(text)):
        return api.TaskCategory.GENERATIVE
    large = [one[0] for one in _LARGE.finditer(text[:_SHORT])]
    if _ONE_ISSUE.search(text[:_SHORT]):
        large = [one for one in large if not _KEPT_BY_TRACKERS.fullmatch(one)]
    if large or (task.asked_by_user and len(_ITEM.findall(text)) >= _EPIC_PARTS):
        return api.TaskCategory.EPIC
    return api.TaskCategory.SINGLE_TASK


def one_look(task: task_memory.TaskMemory, text: str, language: str) -> bool:
    """Whether the task is one short question that Research answers: nothing is ordered, and no specialist's subject is
    named. False wherever it cannot be seen, as in a language whose orders are not known here."""
    plain = text.strip()
    return (
        task.type is pendingtask.Type.USER_INPUT
        and not (task.messages or task.answers or task.attachments)
        and len(plain) <= _SHORT
        and language in order_verbs.ORDERS
        and asks(plain)
        and len(_SENTENCES.findall(plain)) == 1
        and not orders(plain, language)
        and _SPECIAL.search(plain) is None
    )


def remembers(text: str) -> bool:
    """Whether it orders to keep something for later."""
    return _REMEMBER.search(text) is not None and not asks(text)


def asks(text: str) -> bool:
    """Whether it ends with a question."""
    return text.rstrip(" \t\r\n\"')").endswith(("?", "？", "؟"))  # noqa: RUF001


def orders(text: str, language: str) -> bool:
    """Whether it names a thing to do. In a language that is not known here it may."""
    return language not in order_verbs.ORDERS or bool(_ordered(excerpt.edges(text, _SEEN), language))


def _ordered(text: str, language: str) -> frozenset[str]:
    """The orders that a text has; none in a language that is not known here."""
    if language not in order_verbs.ORDERS:
        return frozenset()
    listed = frozenset(order_verbs.ORDERS[language].split())
    found: set[str] = set()
    for sentence in re.split(r"[.!?\n:;]+", text):
        words = [word.lower() for word in _WORD.findall(sentence)]
        for place, word in enumerate(words):
            before = words[place - 1] if place else ""
            begins = not before or before in _PLEASE or before in _AND[language]
            # "Open an issue" is an order, "open issues" are not.
            names = word != "open" or words[place + 1 : place + 2] in (["a"], ["an"], ["the"], ["new"])
            if word in listed and names and (begins or word not in _NOUNS_TOO):
                found.add(word)
    return frozenset(found)


def facets(task: task_memory.TaskMemory, text: str) -> tuple[str, ...]:
    """What the task is by words that triggers of procedures are made of: where it came from, `bug_report`, `deadline`,
    `question`; in this order."""
    text = excerpt.edges(text, _SEEN)
    found = [_TYPES[task.type]]
    if task.type is pendingtask.Type.BUG_TRACKER or _BUG.search(text):
        found.append("bug_report")
    if task.structured_data.get("deadline"):
        found.append("deadline")
    if "?" in text:
        found.append("question")
    return tuple(found)
