"""`answersEarlier`: does a document answer what was asked before it, or say that nothing of it is left to do?"""

from __future__ import annotations

import re

from tests.fakes.ollama.rules import asking, pattern, prompt, reading, text

_DONE = pattern.phrases(
    r"(?:is|are|it's|was|were|have|has|i've|we've) (?:now |all |already |been )*(?:done|fixed|solved|resolved|sorted|"
    r"finished|answered|sent|deployed|approved|updated|restarted|installed|renewed|set up|working again)",
    r"done|fixed|resolved|solved|approved|no longer needed|not needed any ?more|works again|here (?:is|are) the",
    r"attached (?:is|are|you)|as (?:you )?(?:asked|requested)",
    r"hotovo|vyřešeno|opraveno|vyřízeno|schváleno|posláno|odesláno|už (?:to )?(?:funguje|není potřeba)|v příloze",
    r"(?:opravil|vyřešil|poslal|nasadil|schválil)a? (?:jsem|jsme)|(?:jsem|jsme) (?:to )?(?:opravil|vyřešil|poslal)\w*",
    r"(?:je|jsou) (?:už )?(?:nastaven|nainstalován|obnoven|nasazen|připraven)\w*",
    r"erledigt|behoben|gelöst|genehmigt|freigegeben|verschickt|fertig|eingerichtet|installiert|erneuert",
    r"nicht mehr nötig|funktioniert wieder|anbei",
)
_DENIED = re.compile(
    r"\b(?:not|isn't|aren't|hasn't|haven't|wasn't|never|until|when|once|if|will be|to be|ještě|není|nebude|až|dokud|"
    r"noch|nicht|sobald|wenn|wird|bis)\b",
    re.IGNORECASE,
)
_NEEDLESS = pattern.phrases(r"not needed any ?more|no longer needed|už není potřeba|nicht mehr nötig")


def answers_earlier(asked: prompt.Prompt, document: reading.Reading) -> bool:
    """By the words that stand in the document itself; one that asks for something anew leaves something to do."""
    if document.kind == "issue":
        return asking.is_finished(document)
    if not (asked.thread or "[quoted]" in asked.document) or document.bulk or asking.requests(document):
        return False
    return any(_says_done(sentence) for sentence in text.sentences(document.body))


def _says_done(sentence: str) -> bool:
    if _NEEDLESS.search(sentence):
        return True
    found = _DONE.search(sentence)
    return found is not None and not _DENIED.search(sentence)
