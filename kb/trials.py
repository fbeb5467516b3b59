"""`python -m kb.trials`: tasks of the knowledge base's models, for `kubectl jervis models --check`.

A mail for the team, a newsletter for nobody in particular, a fact with the sentence that states it, and the choice of a
tool: with the prompts, shapes and checks of the service itself. The texts are made up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date

from crds import priority, scope
from kb import api
from kb.agent import decision, retrieving, tree
from kb.extract import extraction, prompt, sentence, typed
from router.client import schema, trials

_TODAY = date(2026, 3, 2)
_WHERE = scope.Scope(client_id="trial")
_TEAM = ["Platform", "platform@acme.example"]
_MAILS = {
    "en": ("Certificate of the registry", "Hello Platform team,\nplease renew the certificate of the registry by 20 "
           "March 2026, it expires then.\nMira"),
    "de": ("Zertifikat der Registry", "Hallo Platform-Team,\nbitte erneuert bis zum 20. März 2026 das Zertifikat der "
           "Registry, es läuft dann ab.\nMira"),
    "cs": ("Certifikát registru", "Ahoj týme Platform,\nprosím obnovte do 20. března 2026 certifikát registru, "
           "vyprší.\nMira"),
}  # fmt: skip
_NEWS = ("Reading list of the month", "Here are five articles that we liked this month. Nothing has to be done; enjoy "
         "them with a cup of tea.\nUnsubscribe at any time.")  # fmt: skip
_FACTS = {
    "en": "Petra Novak is the owner of the billing service. The canteen is closed on Friday.",
    "de": "Petra Novak ist die Eigentümerin des Dienstes Billing. Die Kantine ist am Freitag geschlossen.",
    "cs": "Petra Novak je vlastníkem služby Billing. Jídelna je v pátek zavřená.",
}


def every() -> Iterator[trials.Trial]:
    """All tasks."""
    for language, (title, text) in _MAILS.items():
        yield _mail("a mail for the team", language, title, text, wanted=True)
    yield _mail("a newsletter", "en", *_NEWS, wanted=False)
    for language, text in _FACTS.items():
        yield _fact(language, text)
    yield _kind()
    yield _choice()


def _mail(name: str, language: str, title: str, body: str, *, wanted: bool) -> trials.Trial:
    text = f"From: mira@acme.example\nTo: platform@acme.example\nSubject: {title}\n\n{body}\n"
    request = api.IngestRequest(
        scope=_WHERE, source_urn=f"email::{language}", kind="email", title=title, team=_TEAM, content=text
    )
    asked = typed.question("email/v2", request, text, "", today=_TODAY, num_ctx=None)

    def wrong(judgement: typed.EmailJudgement) -> str:
        if judgement.has_actionable_content != wanted:
            return f"it asks for {'something' if wanted else 'nothing'}, which the model does not see"
        return "" if judgement.is_assigned_to_me == wanted else "it is wrong about whose it is"

    return trials.Trial("qualifier", name, language, asked.messages, wrong, typed.EmailJudgement)


def _fact(language: str, text: str) -> trials.Trial:
    def wrong(read: extraction.Extraction) -> str:
        sentences = sentence.split(text)
        proved = [stated for stated in read.relationships if extraction.prove(sentences, stated) is not None]
        ends = [f"{stated.source} {stated.target}".casefold() for stated in proved]
        owner = [names for names in ends if "petra" in names and "billing" in names]
        return "" if owner else f"{len(read.relationships)} facts, none of which says whose the service is"

    asked = prompt.extract(text, title="Notes", kind="text")
    return trials.Trial(
        "qualifier", "a fact and its sentence", language, asked.messages, wrong, extraction.Extraction,
        schema.wire(extraction.Extraction, most=asked.most),
    )  # fmt: skip


def _kind() -> trials.Trial:
    title, text = _MAILS["en"]
    request = api.IngestRequest(scope=_WHERE, source_urn="x::1", kind="text", title=title, content=text)
    asked = typed.question(
        "type/v1", request, f"From: mira@acme.example\nSubject: {title}\n\n{text}", "", today=_TODAY, num_ctx=None
    )

    def wrong(read: typed.Kind) -> str:
        return "" if read.content_type is api.ContentType.EMAIL else f"it is a mail, not {read.content_type.value}"

    return trials.Trial("fast", "the type of a document", "en", asked.messages, wrong, typed.Kind)


def _choice() -> trials.Trial:
    state = tree.TreeData("Who owns the billing service?", _WHERE, priority.Priority.P3)
    tools: list[tree.Tool] = [retrieving.RulesTool(), _Search()]

    def wrong(chosen: decision.Written) -> str:
        if chosen.tool != _Search.name:
            return f"nothing was searched: {chosen.tool or 'it gave up'}"
        try:
            decision.parse(chosen.model_dump_json(), tools)
        except ValueError as error:
            return str(error)
        return ""

    asked = decision.prompt(state, tools, (), "")
    return trials.Trial(
        "decision", "the choice of a tool", "en", asked, wrong, decision.Written, decision.schema(tools)
    )


class _Search(retrieving.FastVectorSearchTool):
    """As the agent is offered it; it is never called here."""

    def __init__(self) -> None:
        self.chars = 0


if __name__ == "__main__":
    sys.exit(trials.main(every))
