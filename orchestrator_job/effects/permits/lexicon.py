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

from orchestrator_job.effects.permits import order_verbs


class Group(StrEnum):
    """What a verb orders; some need an object, as in "write a comment". LOOK: nothing outside changes. USE: where the
    other orders are done. WORK: its object may say so, too."""

    SEND = "send"
    ANSWER = "answer"
    INVITE = "invite"
    COMMENT = "comment"
    WRITE = "write"
    SAY = "say"
    CREATE = "create"
    CHANGE = "change"
    RENAME = "rename"
    LABEL = "label"
    ASSIGN = "assign"
    CLOSE = "close"
    REOPEN = "reopen"
    ADD = "add"
    REPLACE = "replace"
    REMEMBER = "remember"
    USE = "use"
    WORK = "work"
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
        _G.CREATE: "create open file raise make add write submit log report",
        _G.CHANGE: "update change edit modify correct set",
        _G.RENAME: "rename retitle",
        _G.LABEL: "label tag",
        _G.ASSIGN: "assign give",
        _G.CLOSE: "close resolve",
        _G.REOPEN: "reopen",
        _G.ADD: "add append write put insert enter record note document extend update edit change correct",
        _G.REPLACE: "replace overwrite rewrite",
        _G.REMEMBER: "remember keep store save memorise memorize note",
        _G.USE: "use take",
        _G.WORK: "fix repair correct implement refactor migrate",
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
        _G.ASSIGN: "gib versieh",
        _G.CLOSE: "schließe schließt",
        _G.ADD: "füge ergänze schreibe schreib trage hänge aktualisiere ändere korrigiere bearbeite",
        _G.REPLACE: "ersetze überschreibe",
        _G.REMEMBER: "merke speichere",
        _G.USE: "benutze nutze verwende nimm",
        _G.WORK: "korrigiere repariere behebe implementiere migriere",
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
        _G.CREATE: "vytvoř vytvořte založ založte vytvor vytvorte nahlas nahlaste nahlás nahláste",
        _G.CHANGE: "změň změňte uprav upravte aktualizuj aktualizujte oprav opravte zmeň zmeňte",
        _G.RENAME: "přejmenuj přejmenujte premenuj",
        _G.ASSIGN: "přiřaď přiřaďte označ označte priraď priraďte dej dejte daj dajte",
        _G.CLOSE: "zavři zavřete uzavři uzavřete zatvor zatvorte uzavri",
        _G.ADD: "přidej přidejte doplň doplňte připiš dopiš zapiš zapište napiš vlož uprav aktualizuj pridaj pripíš",
        _G.REPLACE: "nahraď nahraďte přepiš přepište prepíš",
        _G.REMEMBER: "zapamatuj zapamatujte ulož uložte zapamätaj",
        _G.USE: "použij použijte použi použite",
        _G.WORK: "oprav opravte implementuj implementujte migruj migrujte",
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
    for language, forms in order_verbs.VERBS.items():
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
ANDS = _words("and und a i")
ANY_AND = ANDS | _words("or oder nebo alebo")
ARTICLES = _words("a an the der die das den dem des ein eine einen einem einer")
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
    "not no never nothing none don't without nicht nichts kein keine keinen keinem nie niemals niemandem ohne ne nic"
    " nikdy nikomu žádný žádnou žádné bez nie nič"
)
"""An order with one of these is none, unless it stands in what is said: "that it does not work"."""
IF = _words(
    "except but aber ale if unless instead when once after provided assuming soon außer falls sofern wenn sobald"
    " nachdem solange vorausgesetzt erst kromě pokud až když jestli jestliže jakmile okrem ak keď akonáhle"
)
"""A sentence with one of these orders something under a condition, or another thing than it says first."""
ASKS = _words("if when jestli")
"""Of these what may begin a question, too: "find out if it works"."""
STOPS = _words(
    "but aber ale actually stop wait cancel sorry halt stopp warte počkej počkajte storno prepáč promiň entschuldigung"
    " forget ignore disregard nevermind vergiss ignoriere doch vlastně vlastne zapomeň zabudni ignoruj"
)
"""At the beginning of a sentence they take back what was ordered before."""
WHAT = _words(
    "what which who whom whose that how when where why whether because since was welche welchen welcher welches wer wen"
    " wem wann wo warum ob wie dass weil co který která které kteří kdo koho jak kdy kde proč zda jestli že protože čo"
    " ktorý ktorá kto kedy prečo či"
)
"""Words behind which a sentence says what it is about."""
THAT = _words("that dass že")
REASONS = THAT | _words("because since weil protože pretože")
ME = _words("me us mir uns mi mně nám nás")
"""Who gets what is sent, where no recipient is named."""
SINGLE = _words("is was has")
"""One does so: with an "and" behind it the verb of an order cannot belong to the same subject, as in "find out what it
is and send it"."""
SEVERAL = _words("are were have do does may can could should must will would shall might to")
"""With these it can."""
PERSONS = _words("we he she they ich wir er")
SUBJECTS_OF = _words("i it sie es man")
"""Subjects of a sentence of its own; these behind a comma alone."""
SENT = _words(
    "sent sending sends written wrote writes writing went goes going mailed forwarded forwards addressed goes gets"
    " belongs got came gesendet gesendete gesendeten geschickt geschickte geschickten geht ging gingen gerichtet"
    " gerichtete gerichteten poslané poslaný poslaných zaslané odeslané odoslané adresované šel šly šli"
)
"""Before "to": something else is, was or will be sent."""
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
NOUN_ON = _words("on to in")
OPENS = _words("a an another new")
"""Behind "open" where it is no adjective."""
UPDATES = _words("update change report note record")
HEADS = _words(
    "please task tasks todo to-do order orders step bitte aufgabe aufgaben auftrag schritt prosím prosim úkol úkoly"
    " úloha úlohy krok jervis following folgendes následující nasledujúce"
)
"""What stands before a colon behind which the user orders, with nothing but `HEADING` beside it."""
HEADING = (
    FILLERS
    | GREETINGS
    | ARTICLES
    | _words("to do this these your for you dies dieses deine für dich mach mache tohle toto udělej urob pro pre")
)
SAID = _words("said says wrote writes asked asks wants demands sagte schrieb fragte řekl řekla napsal napsala píše")
CERTAIN = _words(
    "the this these those last latest first every each all his her their its der die das den dem des letzten ersten"
    " jeden alle poslední první každý všechny ten tu me us mir uns mi nám mně"
)
"""Between a verb and its object: it is no new one, or what is asked for goes to the user."""
PRONOUNS = _words("it this so them es ihn ihm ho jej")
DETERMINERS = ARTICLES | _words(
    "this these those all my your our his her their its each every some another mein meine meinen dein deine unser"
    " unsere seine ihre alle diesen diese dieses tento tuto toto svůj svou všechny"
)
JOINS = ANY_AND | FILLERS | _words("auch sowie take taky tiež aj")
"""Between the aims of a list."""
WITH = _words("with as mit als s se jako")
WITH_A = _words("with a mit einer s")
"""As in "with a cc to"."""
CLOSING = FILLERS | _words(
    "too again today tomorrow immediately soon asap once directly together thanks thank you cheers regards well"
    " auch heute morgen sofort gleich wieder erneut danke schön vielen dank"
    " taky také znovu zase dnes zítra hned ihned děkuji díky dík opäť zajtra ďakujem vďaka"
)
"""Behind an aim they say nothing of it: when, again, thanks."""
PARTICLES = _words("ein hinzu zu an ab vor weiter mit nach fest zurück")
"""At the end they belong to the verb, as in "lade ... ein"."""
RELATIVE = _words("which who whom whose was welche welchen welcher welches co který která které kteří ktorý ktorá")
BEHIND = {
    "en": _words(
        "what which who whom whose that how when where why whether because since about with for regarding concerning"
        " via as like from of by to cc bcc on in into at before after until during within using saying so"
    ),
    "de": _words(
        "was welche welchen welcher welches wer wann wo warum ob wie dass weil damit über für mit als von vom an cc auf"
        " zu zur zum in im ins am um beim bei bis nach per durch wegen vor aus via"
    ),
    "cs": _words(
        "co který která které kteří kdo koho jak kdy kde proč zda jestli že protože aby když čo ktorý ktorá kto kedy"
        " prečo či keď o pro pre podle jako ako od na v ve k ke do u s z ze po před pred přes cez kvůli kvôli ohledně"
        " pomocí pomocou komu cc"
    ),
}
"""By language what goes on with an order behind an aim: prepositions, and what begins a part of its sentence."""
PLACES = TO - COPIES | AT | _words("at for from of im ins bei für von vom pro ve z ze")
"""Before a repository or a Connection where something is done."""
INSIDE = _words("in into im ins v ve do")
VIA = _words("via using through über mittels přes prostřednictvím pomocí cez prostredníctvom pomocou")
VAGUE_VIA = _words("using über")
BY = VIA | _words("by with from at in on mit von per aus s se z ze od zo so na")
"""Before "the connection X"."""
LIKE = _words("like than about wie als jako ako") - _words("about")
SUBJECTS = LIKE | _words("about regarding concerning ohledně o")
THEREOF = _words("tom tomto")
"""As in "o tom", which says nothing of the object."""
SHORTENED = _words("no nr č mr mrs ms dr st")
"""A full stop behind these ends no sentence."""
NUMBER = _words("no nr number numbers nummer č číslo čísla und")
BY_MAIL = _words("by with mit as als jako via per")
"""Before "a mail to": so it is sent."""
MAILS = _words("mail mails email e-mail message note nachricht zprávu správu mejl mailem")

COMMENTS = re.compile(r"comments?|kommentare?|komentar\w*")
ISSUES = re.compile(
    r"issues?|tickets?|bugs?|jira|story|stories|tiket\w*|ukol\w*|uloh\w*|pozadav\w*|chyb\w*|vorgang|vorgange\w*|fehler"
)
PAGES = re.compile(r"pages?|seiten?|strank\w*|stran(?:a|u|y|e|ou)|wiki-?(?:page|seite)")
INVITATIONS = re.compile(r"invitations?|einladung\w*|pozvank\w*")
TITLES = re.compile(r"titles?|headings?|titel|uberschrift|nazev|nazv\w*|nazov|nadpis\w*")
LABELS = re.compile(r"labels?|tags?|stit\w*|etikett\w*")
BODIES = re.compile(r"text\w*|description|body|beschreibung|popis\w*|obsah")
REPOSITORIES = re.compile(r"repositor(?:y|ies)|repos?|projects?|projekt\w*|repozitar\w*")
CONNECTIONS = re.compile(
    r"connections?|accounts?|verbindung|konto|kontem|kontom|pripojen\w*|spojen\w*|ucet|uctem|uctu|uctom"
)
FILES = re.compile(
    r"attach\w*|enclos\w*|files?|documents?|drafts?|anhang|anhange|angehangt\w*|datei\w*|entwurf\w*|priloh\w*"
    r"|soubor\w*|suborm?\w*|koncept\w*"
)
"""Nouns, without marks; compared with the whole word."""
