"""What a user wants, as `model.intent` asks for it in several prompts: by words of four languages, which a real model
knows without a list.

It says of a question that is no order of these languages that something is asked or answered, and of an order which
work it is, as far as the schema offers that work.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tests.fakes.ollama.rules import prompt, text
from text import language

_EPIC_PARTS = 4
_ORDERS = {
    "en": (
        "fix repair send create write add delete remove push commit deploy merge close assign schedule invite "
        "implement refactor prepare reply forward remember remind calculate compute install upload generate rename "
        "move correct summarise summarize translate update review run test build release change order book pay "
        "plan draft answer make set find list compare check document design migrate rewrite comment open"
    ),
    "de": (
        "korrigiere repariere sende schicke schick erstelle erzeuge schreibe schreib lösche entferne füge ändere "
        "aktualisiere schließe plane lade implementiere antworte beantworte berechne prüfe teste erinnere merke fasse "
        "übersetze baue mache mach lege bereite vergleiche entwirf entwerfe entwickle konzipiere migriere verschiebe"
    ),
    "cs": (
        "oprav opravte pošli pošlete napiš napište vytvoř vytvořte založ založte přidej přidejte smaž smažte odstraň "
        "změň změňte uprav upravte zavři přiřaď naplánuj pozvi připrav připravte odpověz spočítej spočítejte zapamatuj "
        "připomeň přelož shrň shrňte nasaď otestuj zkontroluj porovnej navrhni navrhněte udělej udělejte aktualizuj "
        "migruj migrujte přesuň přesuňte vymysli"
    ),
    "sk": (
        "oprav pošli napíš vytvor založ pridaj zmaž odstráň zmeň uprav naplánuj pozvi priprav odpovedz spočítaj "
        "navrhni migruj presuň vymysli"
    ),
}  # fmt: skip
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
_BY = r"\b(?:by|per|following|follow|use|using|according to|as in|with|nach|gemäß|laut|podle|dle|podľa)\s+"
_OUR = r"(?:(?:the|our|its|dem|unserem|našeho|nášho)\s+)?"
_PROCEDURE = r"(?:procedure|verfahren|postupu)\b"
_FOR = r"(?:\s+(?:for|of|called|named|für|zu|namens|pro|na|pre))?"
_QUOTED = r"""["“„«'‚](?P<quoted>[^"“”„«»'‘’‚\n]{2,120})["”“»'‘’]"""  # noqa: RUF001
_PLAIN = rf"(?P<plain>[\w-]+(?:\s+[\w-]+){{0,{5}}})"
_NAMED = (
    re.compile(_BY + _OUR + _PROCEDURE + _FOR + r"\s+" + f"(?:{_QUOTED}|{_PLAIN})", re.IGNORECASE),
    re.compile(
        _BY + rf"(?:the|our)\s+(?:{_QUOTED}|(?P<plain>[\w-]+(?:\s+[\w-]+){{0,3}}))\s+procedure\b", re.IGNORECASE
    ),
)
_NAME_ENDS = re.compile(
    r"\s+(?:and|then|please|that|which|by|to|und|dann|bitte|das|die|der|a|pak|potom|prosím|který|která|ktorý)\s.*$",
    re.IGNORECASE | re.DOTALL,
)
_LISTED = re.compile(r"^[ \t]{0,40}(?:[-*•]|\d{1,2}[.)])[ \t]{1,40}\S", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+")
_SHORT = 300
_EFFECTS = (
    ("sendMail", re.compile(r"@[\w-]+\.|\b(?:e-?)?mail", re.IGNORECASE)),
    ("addComment", re.compile(r"\b(?:comment|kommentier|komentář|komentuj)", re.IGNORECASE)),
    ("createIssue", re.compile(r"\b(?:create|open|erstelle|založ|vytvoř)\b.*\b(?:issue|ticket)", re.IGNORECASE)),
)


def offered(schema: Any) -> frozenset[str]:
    """The intents that a schema lets an answer have."""
    if not isinstance(schema, dict):
        return frozenset()
    own = schema.get("properties", {}).get("intent", {}).get("enum", ())
    return frozenset(own).union(*(offered(one) for one in schema.get("anyOf", ())))


def order(asked: prompt.Prompt, intents: Collection[str]) -> dict[str, Any]:
    """The fields of the reply that say what is wanted; empty where the schema does not ask for them."""
    if not intents:
        return {}
    question = asked.question
    kind = _kind(question)
    if kind not in intents:
        if "respond" not in intents:
            return {}  # of a question the schema wants an answer of another form
        kind = "respond"
    sentences = text.sentences(question) or [question]
    said = next((one for one in sentences if _ordered(one)), sentences[0])[:500] if kind != "advice" else ""
    effects = [
        name for name, pattern in _EFFECTS if kind != "advice" and _ordered(question) and pattern.search(question)
    ]
    return {"intent": kind, "sentence": said, "effects": effects, "notBefore": ""}


def works(made: dict[str, Any]) -> bool:
    """Whether what is wanted is no answer."""
    return bool(made) and made["intent"] not in ("advice", "respond")


def _kind(question: str) -> str:
    ordered = _ordered(question)
    if _asks(question) and not ordered:
        return "advice"
    making = ordered & _MAKING
    if making & _DESIGNS or (making and _MAKES.search(question)):
        return "generative"
    large = [one[0] for one in _LARGE.finditer(question[:_SHORT])]
    if _ONE_ISSUE.search(question[:_SHORT]):
        large = [one for one in large if not _KEPT_BY_TRACKERS.fullmatch(one)]
    if ordered - _LOOKS and (large or len(_LISTED.findall(question)) >= _EPIC_PARTS):
        return "epic"
    if not ordered - _LOOKS:
        return "remember" if _REMEMBER.search(question) and not _asks(question) else "respond"
    codes = bool(ordered & _CODE_ORDERS) and _CODE.search(question) is not None
    tracks = bool(ordered & _TRACKER_ORDERS) and _TRACKER.search(question) is not None
    if codes and tracks:
        # "Fix the bug of issue #1" has one order, which is the code's.
        of_tracker = _TRACKER_ORDERS - _CODE_ORDERS | {"update"}
        return "mixed" if ordered & of_tracker and ordered & _CODE_ORDERS - {"update"} else "code"
    return "code" if codes else "tracker_ops" if tracks else "respond"


def _asks(question: str) -> bool:
    return question.rstrip(" \t\r\n\"')").endswith("?")


def _ordered(question: str) -> frozenset[str]:
    """The orders that a text has; none in a language that is not known here."""
    spoken = language.of([question])
    if spoken not in _ORDERS:
        return frozenset()
    listed = frozenset(_ORDERS[spoken].split())
    found: set[str] = set()
    for sentence in re.split(r"[.!?\n:;]+", question):
        words = [word.lower() for word in _WORD.findall(sentence)]
        for place, word in enumerate(words):
            before = words[place - 1] if place else ""
            begins = not before or before in _PLEASE or before in _AND[spoken]
            # "Open an issue" is an order, "open issues" are not.
            names = word != "open" or words[place + 1 : place + 2] in (["a"], ["an"], ["the"], ["new"])
            if word in listed and names and (begins or word not in _NOUNS_TOO):
                found.add(word)
    return frozenset(found)


def procedure(asked: prompt.Prompt) -> str:
    """The name of the procedure by which it is to be done, or nothing."""
    question = asked.question
    for pattern in _NAMED:
        if (found := pattern.search(question)) is not None:
            plain = " ".join((found["quoted"] or found["plain"]).split())
            return plain if found["quoted"] else _NAME_ENDS.sub("", plain + " ").strip()
    return ""
