"""Word lists of the rules: English function words, months and the like, and common first names."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP = _words("""
    a an the and or but if of to in on at by for from with as is are was were be been being am do does did has have had
    will would can could should shall may might must not no yes this that these those it its we our us you your they
    their them he she his her i me my who whom which what when where why how there here than then so such into about
    over under after before between during also only just more most some any all each every other please re fwd fw
""")

FIRST_NAMES = _words("""
    adam alan alena alex alexander alice amanda andrea andrew andy anna anne anthony barbara ben benjamin brian carl
    carlos carol charles charlotte chris christian christine claire dan daniel david diana dominik eduard edward elena
    elisabeth elizabeth emily emma eric erik eva filip frank frantisek gabriel george grace greg hana hannah hans helen
    henry ian irena isabel ivan jack jakub james jan jana jane jason jennifer jessica jiri jitka joe johan john jonas
    josef joseph julia karel karen kate katerina kevin klara laura lenka leo leon linda lisa lucas lucia lucie ludek
    lukas marek maria marie mark marketa martin mary matt matthew michael michal mike milan mia monika nancy natalie
    nick nicole nina noah oliver olga ondrej pamela patricia patrick paul pavel pavla peter petr petra philip priya
    radek rachel rebecca richard robert roman ryan sam samuel sandra sara sarah simon sofia sophie stefan stephen steve
    steven susan tereza thomas tim tom tomas vaclav veronika victor vera viktor vladimir wei william zdenek zoe
""")

CALENDAR = _words("""
    today tomorrow yesterday mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday
    saturday sunday january february march april may june july august september october november december jan feb mar
    apr jun jul aug sep sept oct nov dec
""")

_HEADINGS = _words("""
    subject from to cc bcc date sent received message-id mime-version content-type content-transfer-encoding
    in-reply-to references x-mailer importance priority status assignee reporter author commit type due deadline
    summary description title key note todo fixme action required question answer version steps expected actual
""")

_OPENERS = _words("""
    hi hello dear hey thanks thank regards best kind sincerely cheers mr mrs ms dr while until since once both however
    therefore moreover although because let lets next last first second using see old new attached find out within head
    don't i'm we're it's ok urgent open closed done unassigned fix fixed fixes add added update updated remove removed
    change changed improve refactor implement create delete merge revert use send review prepare check investigate
    provide deliver submit confirm approve reply fyi asap eod pr api url http https json xml html id plain text charset
""")

NOT_NAMES = STOP | CALENDAR | _HEADINGS | _OPENERS
"""Words that a capital letter does not make a name."""
