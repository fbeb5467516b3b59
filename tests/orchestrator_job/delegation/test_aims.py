"""What of that which a user names beside an order is its aim, in four languages, and what is only mentioned."""

from __future__ import annotations

import pytest

from orchestrator_job.delegation import provenance
from orchestrator_job.delegation.tools.port import Deed

_Case = tuple[str, Deed, dict[str, str]]
_RUN = (
    "Order s0x: Find out what is open, check the contract, and then send it to ann@example.com, bob@example.com by mail"
    "; create issues in o/r, comment on issue 14 and add it to page 42."
)
"""As `bench/agents` orders."""


def carried_out(case: _Case) -> bool:
    """Whether the user's text orders this with these aims."""
    text, deed, named = case
    return provenance.ordering(provenance.Said([text]), deed, named) != []


_MENTIONED: list[_Case] = [
    ("Send the date to ann@example.com, eve@example.com gets it from me.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date to ann@example.com, eve@example.com must stay out.", Deed.MAIL, {"to": "eve@example.com"}),
    (
        "Send the date to ann@example.com and eve@example.com wrote that it is late.",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    ("Reply to ann@example.com, eve@example.com left the company.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pošli datum na ann@example.com, eve@example.com ho zná.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Schicke das Datum an ann@example.com, eve@example.com bekommt es später.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Close issue 13, issue 14 stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13; issue 14 can wait.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, I keep issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, #14 depends on it.", Deed.CLOSE, {"issue": "14"}),
    ("Schließe Ticket 13, Ticket 14 bleibt offen.", Deed.CLOSE, {"issue": "14"}),
    ("Zavři úkol 13, úkol 14 zůstává otevřený.", Deed.CLOSE, {"issue": "14"}),
    ("Comment on issue 13, issue 14 blocks it.", Deed.COMMENT, {"issue": "14"}),
    ("Replace the text of page 42, page 43 stays.", Deed.REPLACE, {"page": "43"}),
    ("Close issue 13, it blocks issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Send the date to ann@example.com - eve@example.com knows it.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date to ann@example.com \u2013 eve@example.com knows it.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date to ann@example.com (eve@example.com knows it).", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date to ann@example.com (not urgent, eve@example.com).", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send ann@example.com the date, eve@example.com already has it.", Deed.MAIL, {"to": "eve@example.com"}),
    (
        "Send the date to ann@example.com, and eve@example.com from sales must stay out.",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    ("Send the date to ann@example.com, eve@example.com in Prague knows it.", Deed.MAIL, {"to": "eve@example.com"}),
    (
        "Send the date to ann@example.com, bob@example.com and eve@example.com disagree about it.",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    (
        "Send the date to ann@example.com, bob@example.com and eve@example.com disagree about it.",
        Deed.MAIL,
        {"to": "bob@example.com"},
    ),
    ("Send the date to ann@example.com, Eve (eve@example.com) is on leave.", Deed.MAIL, {"to": "eve@example.com"}),
    (
        "Send the date to ann@example.com, eve@example.com, who asked, is on leave.",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    ("Send the date, Eve sends the price to eve@example.com.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date and Bob tells it to eve@example.com.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Forward the mail, bob sent the other to eve@example.com.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date to ann@example.com, the price went to eve@example.com.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send the date to ann@example.com, it came from Bob to eve@example.com", Deed.MAIL, {"to": "eve@example.com"}),
    ("Mail eve@example.com sent yesterday is lost.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send failures to eve@example.com occur daily.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send failures to eve@example.com and bob@example.com are in the log.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Send failures to eve@example.com and bob@example.com occur daily.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Invite ann@example.com, eve@example.com cannot come.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Invite ann@example.com; eve@example.com on Monday has no time.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Schicke das Datum an ann@example.com und eve@example.com weiß es schon.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Schicke das Datum an ann@example.com, an eve@example.com geht nichts.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Schicke ann@example.com das Datum, eve@example.com hat es.", Deed.MAIL, {"to": "eve@example.com"}),
    (
        "Schreibe an ann@example.com, eve@example.com in Prag soll es nicht erfahren.",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    ("Lade ann@example.com ein, eve@example.com kommt nicht.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pošli datum na ann@example.com a eve@example.com to ví.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pošli datum na ann@example.com, eve@example.com se to nesmí dozvědět.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pošli datum ann@example.com, eve@example.com je na dovolené.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pošli dátum na ann@example.com, eve@example.com ho už pozná.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pošli dátum na ann@example.com a eve@example.com zostane bokom.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Pozvi ann@example.com, eve@example.com nepřijde.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Close issue 13 - issue 14 stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 and keep issue 14 open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, issue 14 in the other repository stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 and issue 14 with the label bug stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, issue 14, which is a duplicate, stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, issue 14, as Bob said, stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 12, issue 13 and issue 14 stay open.", Deed.CLOSE, {"issue": "13"}),
    ("Close issue 12, issue 13 and issue 14 stay open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, 14 stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, #14 in o/r stays.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 (issue 14 stays open).", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 (#14 stays open).", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 (blocked by issue 14).", Deed.CLOSE, {"issue": "14"}),
    ("Close the milestone, it blocks issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Close the milestone and Eve closes issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Close it, issue 14 stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 as a duplicate of issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 because issue 14 is done.", Deed.CLOSE, {"issue": "14"}),
    ("Comment on issue 13 and issue 14 is wrong.", Deed.COMMENT, {"issue": "14"}),
    ("Comment on issue 14 is wrong.", Deed.COMMENT, {"issue": "14"}),
    ("Comment on issue 14 confuses Bob.", Deed.COMMENT, {"issue": "14"}),
    ("Schließe Ticket 13 und Ticket 14 bleibt offen.", Deed.CLOSE, {"issue": "14"}),
    ("Schließe Ticket 13; Ticket 14 nicht.", Deed.CLOSE, {"issue": "14"}),
    ("Schließe Ticket 13, Ticket 14 bei acme bleibt.", Deed.CLOSE, {"issue": "14"}),
    ("Zavři úkol 13 a úkol 14 nech být.", Deed.CLOSE, {"issue": "14"}),
    ("Zavři úkol 13, úkol 14 se zavře sám.", Deed.CLOSE, {"issue": "14"}),
    ("Zavri úlohu 13, úloha 14 zostáva otvorená.", Deed.CLOSE, {"issue": "14"}),
    ("Zatvor úlohu 13 a úloha 14 ostane.", Deed.CLOSE, {"issue": "14"}),
    ("Add the date to page 42 and page 43 has it already.", Deed.APPEND, {"page": "43"}),
    ("Ergänze das Datum auf Seite 42, Seite 43 hat es schon.", Deed.APPEND, {"page": "43"}),
    ("Doplň datum na stránku 42, stránka 43 ho má.", Deed.APPEND, {"page": "43"}),
    ("Doplň dátum na stránku 42, stránka 43 ho už má.", Deed.APPEND, {"page": "43"}),
    ("Update on issue 14 arrived.", Deed.CHANGE, {"issue": "14"}),
]


@pytest.mark.parametrize("case", _MENTIONED, ids=str)
def test_what_a_user_only_mentions_behind_an_order_is_no_aim(case: _Case) -> None:
    assert not carried_out(case)


_LISTED: list[_Case] = [
    ("Send the date to ann@example.com and bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to ann@example.com, bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to ann@example.com; bob@example.com", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to Ann (ann@example.com) and Bob (bob@example.com).", Deed.MAIL, {"to": "bob@example.com"}),
    (
        "Send the date to Ann <ann@example.com>, Bob <bob@example.com> and Eve <eve@example.com>, please.",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    ("Send the date to ann@example.com and bob@example.com by mail.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to ann@example.com and bob@example.com today.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send ann@example.com and bob@example.com the date of the release.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Write ann@example.com and bob@example.com that the backup works again.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Write to ann@example.com and bob@example.com: the backup works.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Write to ann@example.com and bob@example.com about the release.", Deed.MAIL, {"to": "bob@example.com"}),
    (
        "Invite ann@example.com, bob@example.com and eve@example.com to the release on 13 March 2026.",
        Deed.MAIL,
        {"to": "bob@example.com"},
    ),
    ("Send the date, time and place to bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date and the price to bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to bob@example.com, she asked for it.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to bob@example.com because he asked.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send the date to bob@example.com (he asked).", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send it to ann@example.com with a cc to bob@example.com, please.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Send it to ann@example.com, cc bob@example.com and eve@example.com", Deed.MAIL, {"to": "eve@example.com"}),
    ("Please email bob@example.com the summary of issue 13.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Reply to bob@example.com that we are on it.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Draft and send a reply to bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Review and comment on issue 14.", Deed.COMMENT, {"issue": "14"}),
    ("Schicke das Datum an ann@example.com und bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Schicke ann@example.com und bob@example.com das Datum.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Schicke bob@example.com bitte das Datum.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Lade ann@example.com und bob@example.com zum Treffen am Montag ein.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Leite die Mail an bob@example.com weiter.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Könntest du das Datum an ann@example.com und bob@example.com schicken?", Deed.MAIL, {"to": "bob@example.com"}),
    ("Pošli datum na ann@example.com a bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Pošli datum vydání na ann@example.com a na bob@example.com co nejdřív.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Pošli bob@example.com datum vydání.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Napiš bob@example.com, že záloha funguje.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Pošli dátum na ann@example.com a bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Pozvi ann@example.com a bob@example.com na schůzku v pondělí.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Close issues 13 and 14.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 and issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, issue 14, and comment on issue 15.", Deed.CLOSE, {"issue": "14"}),
    ("Close #13, #14 and #15.", Deed.CLOSE, {"issue": "14"}),
    ("Close ABC-13 and ABC-14 today.", Deed.CLOSE, {"issue": "ABC-14"}),
    ("Comment on issues 13 and 14 that the backup works again.", Deed.COMMENT, {"issue": "14"}),
    ("Comment on issue 13 and on issue 14 that the backup works.", Deed.COMMENT, {"issue": "14"}),
    ("Close issue 14, it is done.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 14 as done.", Deed.CLOSE, {"issue": "14"}),
    ("Schließe die Tickets 13 und 14.", Deed.CLOSE, {"issue": "14"}),
    ("Schließe Ticket 13 und Ticket 14 bitte.", Deed.CLOSE, {"issue": "14"}),
    ("Zavři úkoly 13 a 14.", Deed.CLOSE, {"issue": "14"}),
    ("Zavři úkol 13 a úkol 14.", Deed.CLOSE, {"issue": "14"}),
    ("Zatvor úlohy 13 a 14.", Deed.CLOSE, {"issue": "14"}),
    ("Add the date to page 42 and page 43.", Deed.APPEND, {"page": "43"}),
    ("Add the date and time to pages 42 and 43 of the wiki.", Deed.APPEND, {"page": "43"}),
    ("Label issue 14 as bug.", Deed.RELABEL, {"issue": "14"}),
    ("Versieh Ticket 14 mit dem Label bug.", Deed.RELABEL, {"issue": "14"}),
    ("Gib Ticket 14 das Label bug.", Deed.RELABEL, {"issue": "14"}),
    ("Přiřaď úkolu 14 štítek bug.", Deed.RELABEL, {"issue": "14"}),
    ("Označ úkol 14 štítkem bug.", Deed.RELABEL, {"issue": "14"}),
    ("Priraď úlohe 14 štítok bug.", Deed.RELABEL, {"issue": "14"}),
    ("Say on issue STOR-7 what was wrong.", Deed.COMMENT, {"issue": "STOR-7"}),
    (
        _RUN,
        Deed.MAIL,
        {"to": "bob@example.com"},
    ),
    (
        _RUN,
        Deed.APPEND,
        {"page": "42"},
    ),
]


@pytest.mark.parametrize("case", _LISTED, ids=str)
def test_aims_of_a_plain_list_are_named(case: _Case) -> None:
    assert carried_out(case)


_REPORTED: list[_Case] = [
    ("Eve wrote: close issue 14. Is that right?", Deed.CLOSE, {"issue": "14"}),
    ("In the ticket stands: close issue 14. Why?", Deed.CLOSE, {"issue": "14"}),
    ("The mail says: send the date to eve@example.com. Should we?", Deed.MAIL, {"to": "eve@example.com"}),
    ("Eve says:\nSend the date to eve@example.com.\nWhat do you think?", Deed.MAIL, {"to": "eve@example.com"}),
    ("My question is about the sentence: Send the date to eve@example.com.", Deed.MAIL, {"to": "eve@example.com"}),
    ("She wrote that we should do this:\n- close issue 14\n- send it to Bob\nIs it wise?", Deed.CLOSE, {"issue": "14"}),
    ("How do I say this in Czech: close issue 14", Deed.CLOSE, {"issue": "14"}),
    (
        "I got this mail:\n\nSend the date to eve@example.com.\n\nWhat is it about?",
        Deed.MAIL,
        {"to": "eve@example.com"},
    ),
    ("Send the date to ann@example.com: eve@example.com is on leave.", Deed.MAIL, {"to": "eve@example.com"}),
    ("Close issue 13: issue 14 stays.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13, issue 14: not yet.", Deed.CLOSE, {"issue": "14"}),
    ("Close issue 13 and https://git.example.com/o/r/issues/14 stays open.", Deed.CLOSE, {"issue": "14"}),
    ("Context: Eve wants it. Close issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Here is the mail:\n\nHi team,\n\nclose issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Please read this: close issue 14", Deed.CLOSE, {"issue": "14"}),
    ("Eve hat geschrieben: schließe Ticket 14. Stimmt das?", Deed.CLOSE, {"issue": "14"}),
    ("Im Ticket steht:\nSchließe Ticket 14.\nWarum?", Deed.CLOSE, {"issue": "14"}),
    ("Eva napsala: zavři úkol 14. Je to správně?", Deed.CLOSE, {"issue": "14"}),
    ("V ticketu stojí:\n\nZavři úkol 14.", Deed.CLOSE, {"issue": "14"}),
    ("Eva napísala: zatvor úlohu 14. Je to tak?", Deed.CLOSE, {"issue": "14"}),
    ("Task of Eve: close issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("The following came in: close issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("What is the task: close issue 14?", Deed.CLOSE, {"issue": "14"}),
]


@pytest.mark.parametrize("case", _REPORTED, ids=str)
def test_what_follows_a_colon_is_what_another_says(case: _Case) -> None:
    assert not carried_out(case)


_HEADED: list[_Case] = [
    ("Bitte: schicke das Datum an bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Aufgabe: Schicke das Datum an bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Úkol: pošli datum na bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Úloha: pošli dátum na bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Prosím: pošli datum na bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Please: send the date to bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("To do: send the date to bob@example.com.", Deed.MAIL, {"to": "bob@example.com"}),
    ("Task 2: close issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Hi Jervis: close issue 14.", Deed.CLOSE, {"issue": "14"}),
    ("Please do the following:\n- close issue 14\n- send the date to bob@example.com", Deed.CLOSE, {"issue": "14"}),
    (
        "Please do the following:\n- close issue 14\n- send the date to bob@example.com",
        Deed.MAIL,
        {"to": "bob@example.com"},
    ),
]


@pytest.mark.parametrize("case", _HEADED, ids=str)
def test_what_follows_a_heading_of_the_user_is_ordered(case: _Case) -> None:
    assert carried_out(case)


_ELSEWHERE: list[_Case] = [
    ("Create an issue in acme/app about the outage of acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    (
        "Comment on issue 13 in acme/app with the state of acme/billing.",
        Deed.COMMENT,
        {"repository": "acme/billing", "issue": "13"},
    ),
    ("Create an issue in acme/app about acme/billing, which is down.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Create an issue in acme/app like the one in acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    (
        "Comment on issue 13 in acme/app that acme/billing is down.",
        Deed.COMMENT,
        {"repository": "acme/billing", "issue": "13"},
    ),
    ("Send the sales figures to bob@example.com.", Deed.MAIL, {"to": "bob@example.com", "connection": "sales"}),
    (
        "Use the sales figures. Send them to bob@example.com.",
        Deed.MAIL,
        {"to": "bob@example.com", "connection": "sales"},
    ),
    ("Create an issue in acme/app, acme/billing is down.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Create an issue in acme/app because of acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Create an issue about the outage of acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Create an issue in acme/app and acme/billing stays as it is.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Create an issue in acme/app for the users of acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    (
        "Comment on issue 13 about the outage in acme/billing.",
        Deed.COMMENT,
        {"issue": "13", "repository": "acme/billing"},
    ),
    (
        "Comment on issue 13 that it is down in acme/billing.",
        Deed.COMMENT,
        {"issue": "13", "repository": "acme/billing"},
    ),
    (
        "Comment on issue 13 in acme/app. It came from acme/billing.",
        Deed.COMMENT,
        {"issue": "13", "repository": "acme/billing"},
    ),
    ("Erstelle ein Ticket in acme/app über den Ausfall von acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Erstelle ein Ticket in acme/app, acme/billing ist aus.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Vytvoř úkol v acme/app o výpadku acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    ("Vytvor úlohu v acme/app o výpadku v acme/billing.", Deed.CREATE, {"repository": "acme/billing"}),
    (
        "Okomentuj úkol 13 v acme/app, že acme/billing nejede.",
        Deed.COMMENT,
        {"issue": "13", "repository": "acme/billing"},
    ),
    ("Send the figures of sales to bob@example.com.", Deed.MAIL, {"connection": "sales", "to": "bob@example.com"}),
    ("Send the figures from sales to bob@example.com.", Deed.MAIL, {"connection": "sales", "to": "bob@example.com"}),
    (
        "Send a note about the connection sales to bob@example.com.",
        Deed.MAIL,
        {"connection": "sales", "to": "bob@example.com"},
    ),
    ("Send bob@example.com what is new in sales.", Deed.MAIL, {"connection": "sales", "to": "bob@example.com"}),
    (
        "Take the sales figures. Send them to bob@example.com.",
        Deed.MAIL,
        {"connection": "sales", "to": "bob@example.com"},
    ),
    ("Schicke die Zahlen von sales an bob@example.com.", Deed.MAIL, {"connection": "sales", "to": "bob@example.com"}),
    ("Pošli čísla ze sales na bob@example.com.", Deed.MAIL, {"connection": "sales", "to": "bob@example.com"}),
    ("Create an issue in o/r about the outage in sales.", Deed.CREATE, {"repository": "o/r", "connection": "sales"}),
]


@pytest.mark.parametrize("case", _ELSEWHERE, ids=str)
def test_a_repository_or_a_connection_that_is_no_place_of_the_order(case: _Case) -> None:
    assert not carried_out(case)


_AT: list[_Case] = [
    ("Close issues 13 and 14 in o/r.", Deed.CLOSE, {"repository": "o/r", "issue": "14"}),
    ("Close o/r#14.", Deed.CLOSE, {"repository": "o/r", "issue": "14"}),
    ("Close https://git.example.com/o/r/issues/14.", Deed.CLOSE, {"repository": "o/r", "issue": "14"}),
    ("Comment on issue 14 in o/r that it is done.", Deed.COMMENT, {"repository": "o/r", "issue": "14"}),
    ("Comment on issue 14 of the repository o/r.", Deed.COMMENT, {"repository": "o/r", "issue": "14"}),
    ("Create an issue in the o/r repository about the backup.", Deed.CREATE, {"repository": "o/r"}),
    ("Create an issue for o/r: it fails.", Deed.CREATE, {"repository": "o/r"}),
    ("Create an issue in SHOP about the backup.", Deed.CREATE, {"repository": "SHOP"}),
    ("Create an issue in the project SHOP about the backup.", Deed.CREATE, {"repository": "SHOP"}),
    ("Create an issue in https://git.example.com/o/r about the backup.", Deed.CREATE, {"repository": "o/r"}),
    ("Erstelle ein Ticket in o/r über die Sicherung.", Deed.CREATE, {"repository": "o/r"}),
    ("Erstelle ein Ticket über die Sicherung im Repository o/r.", Deed.CREATE, {"repository": "o/r"}),
    ("Melde einen Fehler in o/r.", Deed.CREATE, {"repository": "o/r"}),
    ("Vytvoř úkol v o/r o záloze.", Deed.CREATE, {"repository": "o/r"}),
    ("Vytvoř v repozitáři o/r úkol o záloze.", Deed.CREATE, {"repository": "o/r"}),
    ("Nahlas chybu v o/r.", Deed.CREATE, {"repository": "o/r"}),
    ("Nahlás chybu v o/r.", Deed.CREATE, {"repository": "o/r"}),
    ("Vytvor úlohu v o/r o zálohe.", Deed.CREATE, {"repository": "o/r"}),
    ("Oprav padající test v o/r a založ o tom úkol.", Deed.CREATE, {"repository": "o/r"}),
    ("Oprav padajúci test v o/r a založ o tom úlohu.", Deed.CREATE, {"repository": "o/r"}),
    ("Korrigiere den Test in o/r und erstelle ein Ticket dazu.", Deed.CREATE, {"repository": "o/r"}),
    (
        "Send the date to bob@example.com via globex-sales.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Send the date to bob@example.com by the connection globex-sales.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Send the date to bob@example.com with the globex-sales account.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Send the date to bob@example.com. Use the connection globex-sales.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Schicke das Datum über globex-sales an bob@example.com.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Schicke das Datum mit dem Konto globex-sales an bob@example.com.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Pošli datum přes globex-sales na bob@example.com.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Pošli dátum cez globex-sales na bob@example.com.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    (
        "Pošli datum na bob@example.com. Použij připojení globex-sales.",
        Deed.MAIL,
        {"connection": "globex-sales", "to": "bob@example.com"},
    ),
    ("File an issue in Gitea about the backup in o/r.", Deed.CREATE, {"connection": "gitea", "repository": "o/r"}),
    ("Add the date to page 42 in wiki.", Deed.APPEND, {"connection": "wiki", "page": "42"}),
    (
        _RUN,
        Deed.COMMENT,
        {"repository": "o/r", "issue": "14"},
    ),
    ("Create an issue about the backup. Use o/r.", Deed.CREATE, {"repository": "o/r"}),
    ("Fix the failing test in o/r and open an issue about it.", Deed.CREATE, {"repository": "o/r"}),
    ("Report a bug in o/r about the backup.", Deed.CREATE, {"repository": "o/r"}),
    ("Napiš komentář k úkolu 14 v gitea.", Deed.COMMENT, {"connection": "gitea", "issue": "14"}),
]


@pytest.mark.parametrize("case", _AT, ids=str)
def test_a_repository_or_a_connection_where_it_is_to_be_done(case: _Case) -> None:
    assert carried_out(case)
