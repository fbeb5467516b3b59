"""What kind of task it is, as far as its text says it without a model. Pure.

The four categories are those of seed 001 "Significance Filter". They go into the prompt of the plan, and a question
that one look into what the team knows answers gets its plan without a model at all.
"""

from __future__ import annotations

import re

from crds import pendingtask
from kb import api
from orchestrator_job import memory

_SHORT = 300
"""Characters of a question that one delegation can answer."""
_EPIC_PARTS = 4
"""Items of a list that make a task an epic."""

# Verbs that order something to be done. Those that are nouns as well, such as "test", count at the beginning of a
# sentence and behind "please" alone.
_ORDERS = {
    "en": (
        "fix repair send create write add delete remove push commit deploy merge close assign schedule invite "
        "implement refactor prepare reply forward remember remind calculate compute install upload generate rename "
        "move correct summarise summarize translate update review run test build release change order book pay "
        "plan draft answer make set find list compare check document design"
    ),
    "de": (
        "korrigiere repariere sende schicke schick erstelle erzeuge schreibe schreib lösche entferne füge ändere "
        "aktualisiere schließe plane lade implementiere antworte beantworte berechne prüfe teste erinnere merke fasse "
        "übersetze baue mache mach lege bereite vergleiche"
    ),
    "cs": (
        "oprav opravte pošli pošlete napiš napište vytvoř vytvořte založ založte přidej přidejte smaž smažte odstraň "
        "změň změňte uprav upravte zavři přiřaď naplánuj pozvi připrav připravte odpověz spočítej spočítejte zapamatuj "
        "připomeň přelož shrň shrňte nasaď otestuj zkontroluj porovnej navrhni udělej udělejte aktualizuj"
    ),
    "sk": "oprav pošli napíš vytvor založ pridaj zmaž odstráň zmeň uprav naplánuj pozvi priprav odpovedz spočítaj",
}  # fmt: skip
_NOUNS_TOO = frozenset(
    (
        *("update", "review", "run", "test", "build", "release", "change", "order", "book", "pay", "plan", "draft"),
        *("answer", "make", "set", "find", "list", "compare", "check", "document", "design", "plane", "lege", "baue"),
    )
)
_PLEASE = frozenset(("please", "you", "bitte", "prosím", "prosim", "můžeš", "můžete", "kannst", "können", "sie"))

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
    r"|brainstorm|proposals? for|navrhni|navrhněte|návrh|koncept|od nuly|nov(?:ou|ý|é) (?:aplikaci|systém|produkt)"
    r"|entwirf|entwickle|konzept|neue[sn]? (?:anwendung|produkt|system))\b",
    re.IGNORECASE,
)
_LARGE = re.compile(
    r"\b(?:epic|roadmap|milestones?|migrat\w+|rewrite|whole (?:project|system)|all (?:repositories|services|teams)"
    r"|milník\w*|migrac\w*|celý (?:projekt|systém)|meilensteine?|gesamte[sn]? (?:projekt|system))\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+\S", re.MULTILINE)
_BUG = re.compile(r"\b(?:bugs?|errors?|exception|traceback|crash\w*|fails?|failed|failing|chyb\w*|fehler\w*)\b", re.I)
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


def of(task: memory.TaskMemory, text: str, language: str) -> api.TaskCategory:
    """ADVICE: something is asked, nothing has to be done. GENERATIVE: something new is designed first. EPIC: several
    goals. SINGLE_TASK: all else, one thing to do."""
    if task.asked_by_user and asks(text) and not orders(text, language):
        return api.TaskCategory.ADVICE
    if task.asked_by_user and _MAKES.search(text):
        return api.TaskCategory.GENERATIVE
    if _LARGE.search(text[:_SHORT]) or (task.asked_by_user and len(_ITEM.findall(text)) >= _EPIC_PARTS):
        return api.TaskCategory.EPIC
    return api.TaskCategory.SINGLE_TASK


def one_look(task: memory.TaskMemory, text: str, language: str) -> bool:
    """Whether the task is one short question that Research answers: nothing is ordered, and no specialist's subject is
    named. False wherever it cannot be seen, as in a language whose orders are not known here."""
    plain = text.strip()
    return (
        task.type is pendingtask.Type.USER_INPUT
        and not (task.messages or task.answers or task.attachments)
        and len(plain) <= _SHORT
        and language in _ORDERS
        and asks(plain)
        and len(_SENTENCES.findall(plain)) == 1
        and not orders(plain, language)
        and _SPECIAL.search(plain) is None
    )


def asks(text: str) -> bool:
    """Whether it ends with a question."""
    return text.rstrip(" \t\r\n\"')").endswith(("?", "？", "؟"))  # noqa: RUF001


def orders(text: str, language: str) -> bool:
    """Whether it names a thing to do. In a language that is not known here it may."""
    verbs = _ORDERS.get(language)
    if verbs is None:
        return True
    listed = frozenset(verbs.split())
    for sentence in re.split(r"[.!?\n:;]+", text):
        words = [word.lower() for word in _WORD.findall(sentence)]
        for place, word in enumerate(words):
            begins = place == 0 or words[place - 1] in _PLEASE
            if word in listed and (begins or word not in _NOUNS_TOO):
                return True
    return False


def facets(task: memory.TaskMemory, text: str) -> tuple[str, ...]:
    """What the task is by words that triggers of procedures are made of: where it came from, `bug_report`, `deadline`,
    `question`; in this order."""
    found = [_TYPES[task.type]]
    if task.type is pendingtask.Type.BUG_TRACKER or _BUG.search(text):
        found.append("bug_report")
    if task.structured_data.get("deadline"):
        found.append("deadline")
    if "?" in text:
        found.append("question")
    return tuple(found)
