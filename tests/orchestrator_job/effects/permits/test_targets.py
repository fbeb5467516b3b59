"""What of that which a user names beside an order is its aim, in four languages, and what is only mentioned."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orchestrator_job.effects.permits import provenance, seen_texts
from orchestrator_job.effects.tools.port import Deed

_Aim = tuple[Deed, tuple[tuple[str, str], ...]]
_Case = tuple[str, Deed, dict[str, str]]
_RUN = (
    "Order s0x: Find out what is open, check the contract, and then send it to ann@example.com, bob@example.com by mail"
    "; create issues in o/r, comment on issue 14 and add it to page 42."
)
"""As `bench/agents` orders."""


def _aim(deed: Deed, /, **named: str) -> _Aim:
    """An order of this kind with these aims."""
    return deed, tuple(named.items())


def _each(table: Mapping[_Aim, str]) -> list[_Case]:
    """The texts by the aim of each are one on a line."""
    return [
        (line.replace("\\n", "\n"), deed, dict(named))
        for (deed, named), text in table.items()
        for line in text.splitlines()
    ]


def carried_out(case: _Case) -> bool:
    """Whether the user's text orders this with these aims."""
    text, deed, named = case
    return provenance.ordering(seen_texts.UserText([text]), deed, named) != []


_MENTIONED = {
    _aim(Deed.MAIL, to="eve@example.com"): """\
Send the date to ann@example.com, eve@example.com gets it from me.
Send the date to ann@example.com, eve@example.com must stay out.
Send the date to ann@example.com and eve@example.com wrote that it is late.
Reply to ann@example.com, eve@example.com left the company.
Pošli datum na ann@example.com, eve@example.com ho zná.
Schicke das Datum an ann@example.com, eve@example.com bekommt es später.
Send the date to ann@example.com - eve@example.com knows it.
Send the date to ann@example.com \u2013 eve@example.com knows it.
Send the date to ann@example.com (eve@example.com knows it).
Send the date to ann@example.com (not urgent, eve@example.com).
Send ann@example.com the date, eve@example.com already has it.
Send the date to ann@example.com, and eve@example.com from sales must stay out.
Send the date to ann@example.com, eve@example.com in Prague knows it.
Send the date to ann@example.com, bob@example.com and eve@example.com disagree about it.
Send the date to ann@example.com, Eve (eve@example.com) is on leave.
Send the date to ann@example.com, eve@example.com, who asked, is on leave.
Send the date, Eve sends the price to eve@example.com.
Send the date and Bob tells it to eve@example.com.
Forward the mail, bob sent the other to eve@example.com.
Send the date to ann@example.com, the price went to eve@example.com.
Send the date to ann@example.com, it came from Bob to eve@example.com
Mail eve@example.com sent yesterday is lost.
Send failures to eve@example.com occur daily.
Send failures to eve@example.com and bob@example.com are in the log.
Invite ann@example.com, eve@example.com cannot come.
Invite ann@example.com; eve@example.com on Monday has no time.
Schicke das Datum an ann@example.com und eve@example.com weiß es schon.
Schicke das Datum an ann@example.com, an eve@example.com geht nichts.
Schicke ann@example.com das Datum, eve@example.com hat es.
Schreibe an ann@example.com, eve@example.com in Prag soll es nicht erfahren.
Lade ann@example.com ein, eve@example.com kommt nicht.
Pošli datum na ann@example.com a eve@example.com to ví.
Pošli datum na ann@example.com, eve@example.com se to nesmí dozvědět.
Pošli datum ann@example.com, eve@example.com je na dovolené.
Pošli dátum na ann@example.com, eve@example.com ho už pozná.
Pošli dátum na ann@example.com a eve@example.com zostane bokom.
Pozvi ann@example.com, eve@example.com nepřijde.""",
    _aim(Deed.CLOSE, issue="14"): """\
Close issue 13, issue 14 stays open.
Close issue 13; issue 14 can wait.
Close issue 13, I keep issue 14.
Close issue 13, #14 depends on it.
Schließe Ticket 13, Ticket 14 bleibt offen.
Zavři úkol 13, úkol 14 zůstává otevřený.
Close issue 13, it blocks issue 14.
Close issue 13 - issue 14 stays open.
Close issue 13 and keep issue 14 open.
Close issue 13, issue 14 in the other repository stays open.
Close issue 13 and issue 14 with the label bug stays open.
Close issue 13, issue 14, which is a duplicate, stays open.
Close issue 13, issue 14, as Bob said, stays open.
Close issue 12, issue 13 and issue 14 stay open.
Close issue 13, 14 stays open.
Close issue 13, #14 in o/r stays.
Close issue 13 (issue 14 stays open).
Close issue 13 (#14 stays open).
Close issue 13 (blocked by issue 14).
Close the milestone, it blocks issue 14.
Close the milestone and Eve closes issue 14.
Close it, issue 14 stays open.
Close issue 13 as a duplicate of issue 14.
Close issue 13 because issue 14 is done.
Schließe Ticket 13 und Ticket 14 bleibt offen.
Schließe Ticket 13; Ticket 14 nicht.
Schließe Ticket 13, Ticket 14 bei acme bleibt.
Zavři úkol 13 a úkol 14 nech být.
Zavři úkol 13, úkol 14 se zavře sám.
Zavri úlohu 13, úloha 14 zostáva otvorená.
Zatvor úlohu 13 a úloha 14 ostane.""",
    _aim(Deed.COMMENT, issue="14"): """\
Comment on issue 13, issue 14 blocks it.
Comment on issue 13 and issue 14 is wrong.
Comment on issue 14 is wrong.
Comment on issue 14 confuses Bob.""",
    _aim(Deed.REPLACE, page="43"): """\
Replace the text of page 42, page 43 stays.""",
    _aim(Deed.MAIL, to="bob@example.com"): """\
Send the date to ann@example.com, bob@example.com and eve@example.com disagree about it.
Send failures to eve@example.com and bob@example.com occur daily.""",
    _aim(Deed.CLOSE, issue="13"): """\
Close issue 12, issue 13 and issue 14 stay open.""",
    _aim(Deed.APPEND, page="43"): """\
Add the date to page 42 and page 43 has it already.
Ergänze das Datum auf Seite 42, Seite 43 hat es schon.
Doplň datum na stránku 42, stránka 43 ho má.
Doplň dátum na stránku 42, stránka 43 ho už má.""",
    _aim(Deed.CHANGE, issue="14"): """\
Update on issue 14 arrived.""",
}


@pytest.mark.parametrize("case", _each(_MENTIONED), ids=str)
def test_what_a_user_only_mentions_behind_an_order_is_no_aim(case: _Case) -> None:
    assert not carried_out(case)


_LISTED = {
    _aim(Deed.MAIL, to="bob@example.com"): f"""\
Send the date to ann@example.com and bob@example.com.
Send the date to ann@example.com, bob@example.com.
Send the date to ann@example.com; bob@example.com
Send the date to Ann (ann@example.com) and Bob (bob@example.com).
Send the date to ann@example.com and bob@example.com by mail.
Send the date to ann@example.com and bob@example.com today.
Send ann@example.com and bob@example.com the date of the release.
Write ann@example.com and bob@example.com that the backup works again.
Write to ann@example.com and bob@example.com: the backup works.
Write to ann@example.com and bob@example.com about the release.
Invite ann@example.com, bob@example.com and eve@example.com to the release on 13 March 2026.
Send the date, time and place to bob@example.com.
Send the date and the price to bob@example.com.
Send the date to bob@example.com, she asked for it.
Send the date to bob@example.com because he asked.
Send the date to bob@example.com (he asked).
Send it to ann@example.com with a cc to bob@example.com, please.
Please email bob@example.com the summary of issue 13.
Reply to bob@example.com that we are on it.
Draft and send a reply to bob@example.com.
Schicke das Datum an ann@example.com und bob@example.com.
Schicke ann@example.com und bob@example.com das Datum.
Schicke bob@example.com bitte das Datum.
Lade ann@example.com und bob@example.com zum Treffen am Montag ein.
Leite die Mail an bob@example.com weiter.
Könntest du das Datum an ann@example.com und bob@example.com schicken?
Pošli datum na ann@example.com a bob@example.com.
Pošli datum vydání na ann@example.com a na bob@example.com co nejdřív.
Pošli bob@example.com datum vydání.
Napiš bob@example.com, že záloha funguje.
Pošli dátum na ann@example.com a bob@example.com.
Pozvi ann@example.com a bob@example.com na schůzku v pondělí.
{_RUN}""",
    _aim(Deed.MAIL, to="eve@example.com"): """\
Send the date to Ann <ann@example.com>, Bob <bob@example.com> and Eve <eve@example.com>, please.
Send it to ann@example.com, cc bob@example.com and eve@example.com""",
    _aim(Deed.COMMENT, issue="14"): """\
Review and comment on issue 14.
Comment on issues 13 and 14 that the backup works again.
Comment on issue 13 and on issue 14 that the backup works.""",
    _aim(Deed.CLOSE, issue="14"): """\
Close issues 13 and 14.
Close issue 13 and issue 14.
Close issue 13, issue 14, and comment on issue 15.
Close #13, #14 and #15.
Close issue 14, it is done.
Close issue 14 as done.
Schließe die Tickets 13 und 14.
Schließe Ticket 13 und Ticket 14 bitte.
Zavři úkoly 13 a 14.
Zavři úkol 13 a úkol 14.
Zatvor úlohy 13 a 14.""",
    _aim(Deed.CLOSE, issue="ABC-14"): """\
Close ABC-13 and ABC-14 today.""",
    _aim(Deed.APPEND, page="43"): """\
Add the date to page 42 and page 43.
Add the date and time to pages 42 and 43 of the wiki.""",
    _aim(Deed.RELABEL, issue="14"): """\
Label issue 14 as bug.
Versieh Ticket 14 mit dem Label bug.
Gib Ticket 14 das Label bug.
Přiřaď úkolu 14 štítek bug.
Označ úkol 14 štítkem bug.
Priraď úlohe 14 štítok bug.""",
    _aim(Deed.COMMENT, issue="STOR-7"): """\
Say on issue STOR-7 what was wrong.""",
    _aim(Deed.APPEND, page="42"): f"""\
{_RUN}""",
}


@pytest.mark.parametrize("case", _each(_LISTED), ids=str)
def test_aims_of_a_plain_list_are_named(case: _Case) -> None:
    assert carried_out(case)


_REPORTED = {
    _aim(Deed.CLOSE, issue="14"): """\
Eve wrote: close issue 14. Is that right?
In the ticket stands: close issue 14. Why?
She wrote that we should do this:\\n- close issue 14\\n- send it to Bob\\nIs it wise?
How do I say this in Czech: close issue 14
Close issue 13: issue 14 stays.
Close issue 13, issue 14: not yet.
Close issue 13 and https://git.example.com/o/r/issues/14 stays open.
Context: Eve wants it. Close issue 14.
Here is the mail:\\n\\nHi team,\\n\\nclose issue 14.
Please read this: close issue 14
Eve hat geschrieben: schließe Ticket 14. Stimmt das?
Im Ticket steht:\\nSchließe Ticket 14.\\nWarum?
Eva napsala: zavři úkol 14. Je to správně?
V ticketu stojí:\\n\\nZavři úkol 14.
Eva napísala: zatvor úlohu 14. Je to tak?
Task of Eve: close issue 14.
The following came in: close issue 14.
What is the task: close issue 14?""",
    _aim(Deed.MAIL, to="eve@example.com"): """\
The mail says: send the date to eve@example.com. Should we?
Eve says:\\nSend the date to eve@example.com.\\nWhat do you think?
My question is about the sentence: Send the date to eve@example.com.
I got this mail:\\n\\nSend the date to eve@example.com.\\n\\nWhat is it about?
Send the date to ann@example.com: eve@example.com is on leave.""",
}


@pytest.mark.parametrize("case", _each(_REPORTED), ids=str)
def test_what_follows_a_colon_is_what_another_says(case: _Case) -> None:
    assert not carried_out(case)


_HEADED = {
    _aim(Deed.MAIL, to="bob@example.com"): """\
Bitte: schicke das Datum an bob@example.com.
Aufgabe: Schicke das Datum an bob@example.com.
Úkol: pošli datum na bob@example.com.
Úloha: pošli dátum na bob@example.com.
Prosím: pošli datum na bob@example.com.
Please: send the date to bob@example.com.
To do: send the date to bob@example.com.
Please do the following:\\n- close issue 14\\n- send the date to bob@example.com""",
    _aim(Deed.CLOSE, issue="14"): """\
Task 2: close issue 14.
Hi Jervis: close issue 14.
Please do the following:\\n- close issue 14\\n- send the date to bob@example.com""",
}


@pytest.mark.parametrize("case", _each(_HEADED), ids=str)
def test_what_follows_a_heading_of_the_user_is_ordered(case: _Case) -> None:
    assert carried_out(case)


_ELSEWHERE = {
    _aim(Deed.CREATE, repository="acme/billing"): """\
Create an issue in acme/app about the outage of acme/billing.
Create an issue in acme/app about acme/billing, which is down.
Create an issue in acme/app like the one in acme/billing.
Create an issue in acme/app, acme/billing is down.
Create an issue in acme/app because of acme/billing.
Create an issue about the outage of acme/billing.
Create an issue in acme/app and acme/billing stays as it is.
Create an issue in acme/app for the users of acme/billing.
Erstelle ein Ticket in acme/app über den Ausfall von acme/billing.
Erstelle ein Ticket in acme/app, acme/billing ist aus.
Vytvoř úkol v acme/app o výpadku acme/billing.
Vytvor úlohu v acme/app o výpadku v acme/billing.""",
    _aim(Deed.COMMENT, repository="acme/billing", issue="13"): """\
Comment on issue 13 in acme/app with the state of acme/billing.
Comment on issue 13 in acme/app that acme/billing is down.""",
    _aim(Deed.MAIL, to="bob@example.com", connection="sales"): """\
Send the sales figures to bob@example.com.
Use the sales figures. Send them to bob@example.com.""",
    _aim(Deed.COMMENT, issue="13", repository="acme/billing"): """\
Comment on issue 13 about the outage in acme/billing.
Comment on issue 13 that it is down in acme/billing.
Comment on issue 13 in acme/app. It came from acme/billing.
Okomentuj úkol 13 v acme/app, že acme/billing nejede.""",
    _aim(Deed.MAIL, connection="sales", to="bob@example.com"): """\
Send the figures of sales to bob@example.com.
Send the figures from sales to bob@example.com.
Send a note about the connection sales to bob@example.com.
Send bob@example.com what is new in sales.
Take the sales figures. Send them to bob@example.com.
Schicke die Zahlen von sales an bob@example.com.
Pošli čísla ze sales na bob@example.com.""",
    _aim(Deed.CREATE, repository="o/r", connection="sales"): """\
Create an issue in o/r about the outage in sales.""",
}


@pytest.mark.parametrize("case", _each(_ELSEWHERE), ids=str)
def test_a_repository_or_a_connection_that_is_no_place_of_the_order(case: _Case) -> None:
    assert not carried_out(case)


_AT = {
    _aim(Deed.CLOSE, repository="o/r", issue="14"): """\
Close issues 13 and 14 in o/r.
Close o/r#14.
Close https://git.example.com/o/r/issues/14.""",
    _aim(Deed.COMMENT, repository="o/r", issue="14"): f"""\
Comment on issue 14 in o/r that it is done.
Comment on issue 14 of the repository o/r.
{_RUN}""",
    _aim(Deed.CREATE, repository="o/r"): """\
Create an issue in the o/r repository about the backup.
Create an issue for o/r: it fails.
Create an issue in https://git.example.com/o/r about the backup.
Erstelle ein Ticket in o/r über die Sicherung.
Erstelle ein Ticket über die Sicherung im Repository o/r.
Melde einen Fehler in o/r.
Vytvoř úkol v o/r o záloze.
Vytvoř v repozitáři o/r úkol o záloze.
Nahlas chybu v o/r.
Nahlás chybu v o/r.
Vytvor úlohu v o/r o zálohe.
Oprav padající test v o/r a založ o tom úkol.
Oprav padajúci test v o/r a založ o tom úlohu.
Korrigiere den Test in o/r und erstelle ein Ticket dazu.
Create an issue about the backup. Use o/r.
Fix the failing test in o/r and open an issue about it.
Report a bug in o/r about the backup.""",
    _aim(Deed.CREATE, repository="SHOP"): """\
Create an issue in SHOP about the backup.
Create an issue in the project SHOP about the backup.""",
    _aim(Deed.MAIL, connection="globex-sales", to="bob@example.com"): """\
Send the date to bob@example.com via globex-sales.
Send the date to bob@example.com by the connection globex-sales.
Send the date to bob@example.com with the globex-sales account.
Send the date to bob@example.com. Use the connection globex-sales.
Schicke das Datum über globex-sales an bob@example.com.
Schicke das Datum mit dem Konto globex-sales an bob@example.com.
Pošli datum přes globex-sales na bob@example.com.
Pošli dátum cez globex-sales na bob@example.com.
Pošli datum na bob@example.com. Použij připojení globex-sales.""",
    _aim(Deed.CREATE, connection="gitea", repository="o/r"): """\
File an issue in Gitea about the backup in o/r.""",
    _aim(Deed.APPEND, connection="wiki", page="42"): """\
Add the date to page 42 in wiki.""",
    _aim(Deed.COMMENT, connection="gitea", issue="14"): """\
Napiš komentář k úkolu 14 v gitea.""",
}


@pytest.mark.parametrize("case", _each(_AT), ids=str)
def test_a_repository_or_a_connection_where_it_is_to_be_done(case: _Case) -> None:
    assert carried_out(case)
