"""Does a text ask somebody to do something, and is that somebody us?"""

from __future__ import annotations

import re

from tests.fakes.ollama.rules import pattern, people, reading, text

_COURTESY = pattern.any_of(
    r"please (?:note|find(?! out)|see (?:below|attached|the attached)|be (?:advised|aware|informed)|remember that)",
    r"please (?:do not|don't) (?:reply|respond|hesitate)|please (?:ignore this|feel free|disregard|visit|click|excuse)",
    r"(?:if|should) you (?:have|need|want|wish)[^.]*(?:question|unsubscribe|help|contact|longer)",
    r"unsubscribe|feel free to|no need to|view (?:this|it) in (?:your )?browser",
    r"(?:let (?:me|us) know|contact us|reach out) if you have",
    r"(?:do|does) not need to|(?:don't|do not) have to",
    r"neodpovídejte|(?:v případě|máte-li) [^.]*dotaz\w*[^.]*|odhlásit",
    r"bitte (?:nicht|beachten Sie|entschuldigen Sie|antworten Sie nicht)",
    r"bei (?:rück)?fragen|abmelden|abbestellen",
)
_NOTHING_TO_DO = pattern.any_of(
    r"\bno (?:further )?action (?:is |was )?(?:required|needed|necessary|on your)",
    r"\bnothing (?:for you )?to do\b|\byou (?:do not|don't) (?:need|have) to do anything\b",
    r"\bfor (?:your )?information only\b|\bpurely informational\b",
    r"\bthis is (?:just|only) (?:an? )?(?:fyi|informat\w+)\b",
    r"\b(?:jen|pouze) pro (?:vaši )?informaci\b",
    r"\b(?:není|nic není) (?:třeba|potřeba|nutné) (?:nic )?(?:dělat|podnikat)\b",
    r"\b(?:nur|lediglich|rein) zur (?:Information|Kenntnis)\b|\bSie müssen nichts (?:tun|unternehmen)\b",
    r"\bkein(?:e)? (?:Aktion|Handlung|Handlungsbedarf|Maßnahme)\b",
)
_STRONG = pattern.any_of(
    r"\b(?:please|kindly|pls|plz|asap)\b",
    r"\b(?:can|could|would|will) (?:you|someone|somebody|anyone|one of you|your team)\b",
    r"\b(?:i|we)(?:'d| would) (?:like you|appreciate it if you|be grateful if you)\b",
    r"\b(?:i|we) (?:need|want|expect|ask) you\b|\bwe are asking\b|\brequest(?:ing|ed)? (?:that )?you\b",
    r"\b(?:todo|fixme|to-do)\b|\baction (?:required|needed|item)",
    r"\b(?:waiting|await\w*) (?:for )?your\b",
    r"\byour (?:approval|review|feedback|confirmation|decision|signature) is\b",
    r"\byou(?:'ll| will)? (?:need|have|are (?:required|asked|expected)) to\b|\byou must\b",
    r"\bprosím(?:e|)\b|\b(?:můžete|můžeš|mohla? bys|mohli? byste|žádám|žádáme|potřebuji od|potřebujeme od)\b",
    r"\b(?:je|bude) (?:třeba|potřeba|nutné)\b|\b(?:musíte|musíš|máte za úkol)\b",
    r"\bbitten? (?:Sie|wir|um)\b|\bbitte\b|\b(?:können|könnten|würden|werden) Sie\b",
    r"\b(?:kann|kannst|könntest) (?:du|jemand)\b",
    r"\b(?:müssen|sollten) Sie\b|\bdu musst\b",
)
_WEAK = pattern.phrases(
    r"(?:need|needs) to",
    r"must",
    r"has to be",
    r"needs? (?:your |a |an )?\w*(?:review|approval|fix|update|investigation|attention)",
    r"should be (?:fixed|updated|changed|reviewed|replaced|removed|added|sent|investigated|delivered)",
)
_IMPERATIVE = re.compile(
    r"^(?:@[\w.\-]+[,:]?\s+)?(?:also,? |then |and )?"
    r"(?:fix|update|send|review|prepare|check|investigate|provide|deliver|submit|confirm|approve|reply|respond|complete|"
    r"finish|implement|add|remove|replace|upgrade|migrate|restart|deploy|schedule|sign|pay|call|write|create|make sure|"
    r"ensure|verify|test|rotate|renew|decide|reproduce|analy[sz]e|resolve)\b (?!for\b|of\b|in\b|is\b|was\b|has\b)",
    re.IGNORECASE,
)
_QUESTION_TO_US = pattern.phrases("you|your|we|our|us|who|when|what|which|how|is it|are there|does|do")
_TO_READER = pattern.phrases(
    r"assign(?:ed|ing) (?:this |it |the \w+ )?to (?:you|your team)",
    r"(?:has|have) been assigned to you|assigned you",
    r"you(?:'re| are) (?:responsible|the owner|assigned|in charge)",
    r"(?:please )?take (?:over|ownership)|this (?:one )?is yours",
    r"your (?:task|assignment) is|you own",
    r"we (?:need|expect) your team to|your team is (?:responsible|the owner)",
    r"(?:přiřazuji|přiděluji|předávám) (?:to |ji |ho |tento úkol )?(?:tobě|ti|vám)|je to (?:na tobě|na vás|tvoje)",
    r"(?:ist|sind|wird|werden|wurde|wurden) (?:dir|euch|Ihnen|deinem Team) (?:zugewiesen|übertragen)",
    r"Sie sind (?:dafür )?zuständig",
)
_FINISHED = pattern.phrases(
    "done|closed|resolved|cancelled|canceled|won't (?:do|fix)|rejected|duplicate|merged",
    "hotovo|vyřešeno|uzavřeno|zamítnuto|erledigt|geschlossen|gelöst|abgelehnt",
)


def requests(document: reading.Reading) -> list[str]:
    """The sentences that ask for something, in order.

    Empty for newsletters and for texts that say nothing is to be done.
    """
    prose = said(document)
    if informs_only(document):
        return []
    return [sentence for sentence in text.sentences(prose) if asks(sentence, past=document.kind == "commit")]


def said(document: reading.Reading) -> str:
    """What is read sentence by sentence: a mail's subject counts, for some are nothing else."""
    return f"{document.subject}.\n\n{document.body}" if document.kind == "mail" else document.body


def informs_only(document: reading.Reading) -> bool:
    """A mass mailing, a text that says nothing is to be done, an issue that is finished."""
    finished = document.kind == "issue" and is_finished(document)
    return document.bulk or finished or _NOTHING_TO_DO.search(said(document)) is not None


def is_finished(document: reading.Reading) -> bool:
    """Whether an issue's status says that nothing is left to do."""
    return bool(_FINISHED.search(document.status))


def is_open_issue(document: reading.Reading) -> bool:
    """An issue that is not finished is a request by its nature."""
    return document.kind == "issue" and bool(document.status or document.assignee) and not is_finished(document)


def assignment(document: reading.Reading, team: people.Team) -> str:
    """The words by which the work was given directly to us; empty if it was not.

    Standing in To or Cc is not enough: the text must assign it, name us beside the request, or carry us as its
    assignee.
    """
    if not team or document.kind == "commit" or informs_only(document):
        return ""
    if document.assignee is not None:
        return f"Assignee: {document.assignee.label}" if team.has(document.assignee) else ""
    to_us = any(team.has(person) for person in document.to)
    for sentence in text.sentences(f"{document.subject}.\n\n{document.body}"):
        if _names_us(sentence, team) or (to_us and _TO_READER.search(sentence)):
            return sentence
    return ""


def asks(sentence: str, past: bool = False) -> bool:
    """Whether this sentence asks for something.

    `past`: it tells what was done, as "Fix the parser" does in a commit.
    """
    bare = _COURTESY.sub(" ", sentence)
    if _STRONG.search(bare):
        return True
    if past:
        return False
    if _IMPERATIVE.match(bare.strip()) and len(bare.split()) > 2:
        return True
    if sentence.rstrip().endswith("?") and _QUESTION_TO_US.search(bare):
        return True
    return bool(_WEAK.search(bare))


def _names_us(sentence: str, team: people.Team) -> bool:
    if any(team.answers_to(handle) for handle in people.MENTION.findall(sentence)):
        return bool(
            _STRONG.search(sentence) or _IMPERATIVE.match(sentence) or _WEAK.search(sentence) or "assign" in sentence
        )
    for word in team.spellings():
        name = r"(?<![\w@.])@?" + re.escape(word) + r"(?![\w@])"
        given = (
            r"\b(?:assign(?:ed|ing)?(?: this| it)? to|responsible(?: person)?:?|owner:|action(?: item)?(?: for)?:?|"
            r"todo:?)"
            rf"\s+(?:the )?{name}"
        )
        called = (
            rf"^(?:(?:hi|hello|dear|hallo|ahoj)\s+)?{name}\s*[,:\-]\s*"
            r"(?:please|can you|could you|would you|you |prosím|můžeš|bitte|kannst du)"
        )
        takes = rf"{name}(?:,| )\s*(?:must|should|needs? to|is to|has to|is responsible|owns|will own|please)\b"
        if any(re.search(form, sentence, re.IGNORECASE) for form in (given, called, takes)):
            return True
    return False
