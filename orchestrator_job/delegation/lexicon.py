"""The words by which a user's order is known, in the four languages whose orders the code knows: data alone.

A language that is not here orders nothing, so that a person decides. Czech and Slovak words count without their marks,
too. `VERBS` has by language and group the forms of an order, `INFINITIVES` those that count behind a request ("bitte
... schicken").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from orchestrator_job.delegation import category


class Group(StrEnum):
    """What a verb orders; some need an object, as in "write a comment". LOOK: nothing outside changes. USE: where the
    other orders are done."""

    SEND = "send"
    ANSWER = "answer"
    INVITE = "invite"
    COMMENT = "comment"
    WRITE = "write"
    SAY = "say"
    CREATE = "create"
    CHANGE = "change"
    RENAME = "rename"
    CLOSE = "close"
    REOPEN = "reopen"
    ADD = "add"
    REPLACE = "replace"
    REMEMBER = "remember"
    USE = "use"
    LOOK = "look"


_G = Group
_VERBS: Mapping[str, Mapping[Group, str]] = {
    "en": {
        _G.SEND: "send mail email e-mail forward cc notify inform write announce",
        _G.ANSWER: "answer reply respond",
        _G.INVITE: "invite",
        _G.COMMENT: "comment",
        _G.WRITE: "write add post leave put submit make create",
        _G.SAY: "say report note mention",
        _G.CREATE: "create open file raise make add write submit log",
        _G.CHANGE: "update change edit modify correct set",
        _G.RENAME: "rename retitle",
        _G.CLOSE: "close resolve",
        _G.REOPEN: "reopen",
        _G.ADD: "add append write put insert enter record note document extend update edit change correct",
        _G.REPLACE: "replace overwrite rewrite",
        _G.REMEMBER: "remember keep store save memorise memorize note",
        _G.USE: "use take",
        _G.LOOK: "look read search show tell say explain describe quote fill get go give summarise",
    },
    "de": {
        _G.SEND: "sende sendet schicke schick schickt schreibe schreib schreibt maile leite informiere benachrichtige",
        _G.ANSWER: "antworte antwortet beantworte beantwortet",
        _G.INVITE: "lade ladet",
        _G.COMMENT: "kommentiere kommentiert",
        _G.WRITE: "schreibe schreib schreibt füge hinterlasse erstelle",
        _G.SAY: "sage sag melde",
        _G.CREATE: "erstelle erstellt erzeuge lege eröffne melde",
        _G.CHANGE: "ändere aktualisiere bearbeite korrigiere",
        _G.RENAME: "benenne",
        _G.CLOSE: "schließe schließt",
        _G.ADD: "füge ergänze schreibe schreib trage hänge aktualisiere ändere korrigiere bearbeite",
        _G.REPLACE: "ersetze überschreibe",
        _G.REMEMBER: "merke speichere",
        _G.USE: "benutze nutze verwende nimm",
        _G.LOOK: "lies zeige suche finde erkläre nenne sage",
    },
    "cs": {
        _G.SEND: (
            "pošli pošlete zašli zašlete napiš napište přepošli přepošlete informuj informujte oznam oznamte"
            " pošlite napíš napíšte prepošli"
        ),
        _G.ANSWER: "odpověz odpovězte odpovedz odpovedzte",
        _G.INVITE: "pozvi pozvěte pozvite",
        _G.COMMENT: "okomentuj okomentujte",
        _G.WRITE: "napiš napište přidej přidejte vlož vložte napíš napíšte pridaj pridajte",
        _G.CREATE: "vytvoř vytvořte založ založte vytvor vytvorte",
        _G.CHANGE: "změň změňte uprav upravte aktualizuj aktualizujte oprav opravte zmeň zmeňte",
        _G.RENAME: "přejmenuj přejmenujte premenuj",
        _G.CLOSE: "zavři zavřete uzavři uzavřete zatvor zatvorte uzavri",
        _G.ADD: "přidej přidejte doplň doplňte připiš dopiš zapiš zapište napiš vlož uprav aktualizuj pridaj pripíš",
        _G.REPLACE: "nahraď nahraďte přepiš přepište prepíš",
        _G.REMEMBER: "zapamatuj zapamatujte ulož uložte zapamätaj",
        _G.USE: "použij použijte použi použite",
        _G.LOOK: "zjisti zjistěte najdi najděte ukaž přečti řekni zisti nájdi",
    },
}
_INFINITIVES: Mapping[str, Mapping[Group, str]] = {
    "de": {
        _G.SEND: "senden schicken schreiben mailen weiterleiten zusenden zuschicken informieren benachrichtigen",
        _G.ANSWER: "antworten beantworten",
        _G.INVITE: "einladen",
        _G.COMMENT: "kommentieren",
        _G.CREATE: "erstellen anlegen erzeugen eröffnen",
        _G.CHANGE: "ändern aktualisieren bearbeiten",
        _G.CLOSE: "schließen",
        _G.ADD: "hinzufügen ergänzen eintragen anhängen einfügen",
        _G.REPLACE: "ersetzen überschreiben",
        _G.REMEMBER: "merken speichern",
    },
    "cs": {
        _G.SEND: "poslat zaslat napsat přeposlat poslať napísať",
        _G.ANSWER: "odpovědět odpovedať",
        _G.INVITE: "pozvat pozvať",
        _G.COMMENT: "okomentovat okomentovať",
        _G.CREATE: "vytvořit založit vytvoriť",
        _G.CHANGE: "změnit upravit aktualizovat zmeniť",
        _G.CLOSE: "zavřít uzavřít zatvoriť",
        _G.ADD: "přidat doplnit pridať",
        _G.REPLACE: "nahradit přepsat",
        _G.REMEMBER: "zapamatovat uložit",
    },
}


def bare(word: str) -> str:
    """Without marks on its letters."""
    return "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))


def _listed(table: Mapping[str, Mapping[Group, str]]) -> dict[str, dict[str, frozenset[Group]]]:
    found: dict[str, dict[str, frozenset[Group]]] = {}
    for language, groups in table.items():
        for group, forms in groups.items():
            for form in forms.split():
                folded = form.casefold()
                for one in {folded, bare(folded)} if language == "cs" else {folded}:
                    had = found.setdefault(one, {})
                    had[language] = had.get(language, frozenset()) | {group}
    return found


def _all() -> Mapping[str, Mapping[str, frozenset[Group]]]:
    found = _listed(_VERBS)
    for language, forms in category.VERBS.items():
        for form in forms:
            # "Order 7: ..." names one.
            if form != "order":
                found.setdefault(form.casefold(), {}).setdefault(
                    "cs" if language == "sk" else language, frozenset((Group.LOOK,))
                )
    return MappingProxyType(found)


VERBS = _all()
INFINITIVES = MappingProxyType(_listed(_INFINITIVES))


def _words(text: str) -> frozenset[str]:
    return frozenset(one for word in text.casefold().split() for one in (word, bare(word)))


AND = {"en": _words("and then also"), "de": _words("und dann danach"), "cs": _words("a i pak potom nakonec")}
ANY_AND = _words("and or und oder a i nebo alebo")
GREETINGS = _words("hi hello hey dear hallo lieber liebe moin ahoj dobrý guten jervis")
FILLERS = _words(
    "please kindly now then also next first finally just ok okay so bitte nun jetzt dann danach noch prosím teď nyní"
    " pak potom nakonec jervis"
)
REQUESTS = frozenset(
    tuple(one.split())
    for one in (
        "please", "can you", "could you", "would you", "will you", "bitte", "kannst du", "könntest du", "würdest du",
        "können sie", "könnten sie", "würden sie", "prosím", "prosim", "můžeš", "můžete", "mohl bys", "mohla bys",
        "mohli byste", "môžeš", "môžete",
    )
)  # fmt: skip
"""Beginnings of a sentence that ask for something to be done: an infinitive orders behind them, and so does a sentence
that ends with a question mark."""

NO = _words(
    "not no never nothing none don't without except but if unless instead nicht nichts kein keine keinen keinem nie"
    " niemals niemandem ohne außer falls sofern ne nic nikdy nikomu žádný žádnou žádné bez kromě pokud nie nič okrem ak"
)
"""An order with one of these is none that code understands."""
WHAT = _words(
    "what which who whom whose that how when where why whether because since was welche welchen welcher welches wer wen"
    " wem wann wo warum ob wie dass weil co který která které kteří kdo koho jak kdy kde proč zda jestli že protože čo"
    " ktorý ktorá kto kedy prečo či"
)
"""Words behind which a sentence says what it is about."""
THAT = _words("that dass že")
TO = _words("to at cc bcc an na komu")
AT = _words("on in of into auf zu zur v k ke do u")
"""Before an issue or a page that an order is at."""
COPIES = _words("cc bcc")
ABOUT = _words("about with for like than regarding concerning via as über für mit o pro pre podle ako jako als")
OF = _words("from of by von vom od")
NOUN = _words("from of by is was has have are were will and or i we he she they ich wir er man")
"""A verb before one of these is a noun, as in "the answer of", or says what happens."""
NOUNS_TO = _words("mail email e-mail post answer comment close")
"""Before "to" they are no verbs, as in "mail to Eve"."""
STATES = _words("is was are were has had does did ist war sind wird wurde hat byl byla bylo jsou")
"""A sentence that has one of these says something and orders nothing."""
NOUN_ON = _words("on to in")
OPENS = _words("a an another new")
"""Behind "open" where it is no adjective."""
UPDATES = _words("update change report note record")
SAID = _words("said says wrote writes asked asks wants demands sagte schrieb fragte řekl řekla napsal napsala píše")
CERTAIN = _words(
    "the this these those last latest first every each all his her their its der die das den dem des letzten ersten"
    " jeden alle poslední první každý všechny ten tu me us mir uns mi nám mně"
)
"""Between a verb and its object: it is no new one, or what is asked for goes to the user."""
PRONOUNS = _words("it this so them es ihn ihm ho jej")
SHORTENED = _words("no nr č mr mrs ms dr st")
"""A full stop behind these ends no sentence."""
NUMBER = _words("no nr number numbers nummer č číslo čísla und")
MAILS = _words("mail mails email e-mail message note nachricht zprávu správu mejl mailem")

COMMENTS = re.compile(r"comments?|kommentare?|komentar\w*")
ISSUES = re.compile(r"issues?|tickets?|jira|story|stories|tiket\w*|ukol\w*|pozadav\w*|vorgang|vorgange\w*")
PAGES = re.compile(r"pages?|seiten?|strank\w*|stran(?:a|u|y|e|ou)|wiki-?(?:page|seite)")
INVITATIONS = re.compile(r"invitations?|einladung\w*|pozvank\w*")
TITLES = re.compile(r"titles?|headings?|titel|uberschrift|nazev|nazv\w*|nazov|nadpis\w*")
LABELS = re.compile(r"labels?|tags?|stit\w*|etikett\w*")
BODIES = re.compile(r"text\w*|description|body|beschreibung|popis\w*|obsah")
FILES = re.compile(
    r"attach\w*|enclos\w*|files?|documents?|drafts?|anhang|anhange|angehangt\w*|datei\w*|entwurf\w*|priloh\w*"
    r"|soubor\w*|suborm?\w*|koncept\w*"
)
"""Nouns, without marks; compared with the whole word."""
