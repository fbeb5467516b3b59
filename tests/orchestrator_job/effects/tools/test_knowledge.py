"""Tools over the knowledge base, with the token of a run."""

from __future__ import annotations

import pytest

from crds import errors
from kb import api
from kb import client as kb_client
from orchestrator_job.effects import ledger_entries
from orchestrator_job.effects.tools import bounds, knowledge, port
from tests.kb import world
from tests.kb.ingest import trees
from tests.orchestrator_job.effects.tools import parts

pytestmark = pytest.mark.services
URN = "email::<m1@acme.com>"


async def settled(made: parts.Parts, tool: port.Acting, **given: object) -> ledger_entries.Receipt:
    parsed = port.parse(tool, given)
    effect = tool.effect(parsed, parts.place())
    return await effect.perform(f"{made.uid}/r1.d1/1")


async def test_evidence_is_found_read_and_kept_back_by_rules(made: parts.Parts) -> None:
    text = world.LONG.strip()
    await made.known.ingest(world.request(world.LONG, owner=parts.SCOPE, urn=URN))
    tools, _ = await made.box()
    found = await parts.called(tools, "search_knowledge", query="Who wrote module3.py?")
    assert URN in found.sources
    assert "module3.py" in found.text
    read = await parts.called(tools, "read_source", sourceUrn=URN)
    assert (read.data["characters"], read.sources) == (len(text), (URN,))
    assert text[:2000] in read.text
    rest = await parts.called(tools, "read_source", sourceUrn=URN, kind="email", start=len(text) - 20)
    assert rest.text.endswith(text[-20:])
    assert (await parts.called(tools, "read_source", sourceUrn="email::none")).failed
    related = await parts.called(tools, "related", keys=["file::module3.py"], hops=1)
    assert (related.text, related.data) == ("email::m1@acme.com mentions file:module3.py", {"edges": 1})
    alone = await parts.called(tools, "related", keys=["file::none.py"])
    assert (alone.text, alone.data) == ("The graph relates nothing to these keys.", {"edges": 0})
    for rule in ("enforce: never-use-kind email", "enforce: never-use-source email::*"):
        made.rules = rule
        tools, _ = await made.box()
        assert (await parts.called(tools, "search_knowledge", query="Who wrote module3.py?")).data == {"found": 0}
        assert (await parts.called(tools, "read_source", sourceUrn=URN, kind="email")).failed
        assert (await parts.called(tools, "related", keys=["file::module3.py"])).failed
    made.rules = "enforce: never-use-tool search"
    tools, _ = await made.box()
    assert {"search_knowledge", "read_source", "related", "code_where"}.isdisjoint(tools.tools)


async def test_a_fact_is_remembered_and_shown_as_what_is_known(made: parts.Parts) -> None:
    tools, _ = await made.box()
    store = parts.acting(tools, "store_knowledge")
    given = {"subject": "BMS", "content": "BMS is the Brokerage Management System.", "category": "domain"}
    parsed = port.parse(store, given)
    assert dict(store.aims(parsed)) == {"subject": given["subject"], "content": given["content"]}
    assert given["content"] in store.shown(parsed)
    first = await settled(made, store, **given)
    assert (await settled(made, store, **given))["sources"] == first["sources"]
    known = await parts.called(tools, "user_context")
    assert "BMS is the Brokerage Management System." in known.text
    with pytest.raises(port.Misused, match="category"):
        port.parse(store, {**given, "category": "secret"})


async def test_proposals_take_the_place_of_nothing_that_a_person_said(made: parts.Parts) -> None:
    tools, _ = await made.box()
    rule, way = parts.acting(tools, "propose_rule"), parts.acting(tools, "propose_procedure")
    assert rule.tier is way.tier is port.Tier.PERSON
    given = {"key": "citations", "content": "Cite.\nenforce: always-cite", "type": "VALIDATION"}
    assert "enforce: always-cite" in rule.shown(port.parse(rule, given))
    assert (await settled(made, rule, **given))["version"] == 1
    assert (await settled(made, rule, **given))["version"] == 1
    [kept] = await made.kb.rules.in_force(parts.SCOPE)
    assert (kept.rule_key, kept.scope) == ("learned.citations", parts.SCOPE)
    wrong = port.parse(rule, {**given, "content": "enforce: allow-everything"})
    with pytest.raises(port.Misused, match="no provision"):
        rule.aims(wrong)
    steps = [{"agent": "coding", "action": "Fix it", "parameters": {"tracker": "Jira", "limit": 3}}]
    proposed = {"triggerPattern": "failing test", "steps": steps}
    assert "1. coding: Fix it (tracker: Jira, limit: 3)" in way.shown(port.parse(way, proposed))
    saved = await settled(made, way, **proposed)
    assert saved["text"].startswith("Saved as procedure")
    [kept_way] = await made.kb.memory.procedures("acme", viewer=parts.SCOPE)
    assert kept_way.procedure_steps == steps
    with pytest.raises(port.Misused, match="parameters"):
        port.parse(way, {**proposed, "steps": [{**steps[0], "parameters": {"a": [1]}}]})


async def test_procedures_are_read_by_the_words_of_their_trigger(made: parts.Parts) -> None:
    tools, _ = await made.box()
    assert (await parts.called(tools, "read_procedures")).text == "There is no such procedure."
    step = api.Step(agent="Research", action="Find the invoice.", parameters={"limit": 3})
    draft = api.ProcedureDraft(client_id="acme", trigger_pattern="email_question", procedure_steps=[step])
    own = {"trigger_pattern": "invoices of Globex", "source": "user_defined"}
    for one in (draft, draft.model_copy(update=own)):
        await made.kb.memory.save_procedure(one)
    found = (await parts.called(tools, "read_procedures", about="the invoice")).text
    assert found == (
        "'invoices of Globex', defined by a user, not used yet:\n1. Research: Find the invoice. (limit: 3)"
    )
    every = (await parts.called(tools, "read_procedures")).text
    assert every.index("invoices of Globex") < every.index("'email_question', learned or proposed")


async def test_a_draft_is_stored_and_named(made: parts.Parts) -> None:
    tools, _ = await made.box()
    saved = await parts.called(tools, "save_draft", name="report.md", text="# Done")
    assert await made.kb.fetch(parts.SCOPE, saved.artifacts[0]) == b"# Done"
    with pytest.raises(port.Misused, match="name"):
        port.parse(tools.tools["save_draft"], {"name": "../x", "text": "t"})
    with pytest.raises(port.Misused, match="mediaType"):
        port.parse(tools.tools["save_draft"], {"name": "x", "mediaType": "text/html\r\nX: 1", "text": "t"})
    event = {"summary": "Release", "start": "2026-03-13T09:30:00", "end": "2026-03-13T10:00:00"}
    drafted = await parts.called(tools, "draft_event", timeZone="Europe/Prague", **event)
    assert (await made.kb.fetch(parts.SCOPE, drafted.artifacts[0])).startswith(b"BEGIN:VCALENDAR")


async def test_only_pages_of_allowed_hosts_are_fetched(made: parts.Parts) -> None:
    tools, _ = await made.box()
    assert "fetch_page" not in tools.tools
    tools, _ = await made.box(fetch_hosts=["*.example.com", "127.0.0.1"])
    page = tools.tools["fetch_page"]
    assert isinstance(page, port.Guarded)
    for url in ("http://evil.example/?q=secret", "https://example.com.evil.example/", "http://169.254.169.254/"):
        reach = page.reach(port.parse(page, {"url": url}))
        assert (reach.tool, reach.text, reach.url) == ("fetchPage", url, url)
        assert not page.allows(reach.targets[0])
    assert page.allows("docs.example.com")
    # The knowledge base judges the address itself.
    refused = await parts.called(tools, "fetch_page", url="http://127.0.0.1/latest")
    assert refused.failed
    assert "not a public address" in refused.text
    for url in ("http://user@docs.example.com/", "file:///etc/passwd", "http://docs.example.com/\r\nX: 1"):
        with pytest.raises(port.Misused, match="url"):
            port.parse(tools.tools["fetch_page"], {"url": url})


def test_what_is_left_out_of_an_answer_is_said() -> None:
    assert bounds.cut("x" * 20, 10).startswith("x" * 10 + "\n[10 more characters")
    assert bounds.failed(errors.Permanent("No.", remedy="Do.")).text == "No. Do."

    def piece(start: int, text: str) -> api.Chunk:
        of = {"source_urn": "u", "kind": "k", "title": "t", "heading": "", "ordinal": 0, "graph_refs": []}
        return api.Chunk(chunk_id=str(start), text=text, start=start, end=start + len(text), **of)

    assert knowledge.joined([piece(6, "cdef"), piece(0, "abcd")]) == "abcd\n\ncdef"
    assert knowledge.joined([piece(2, "cdef"), piece(0, "abcd")]) == "abcdef"


async def test_code_is_asked_about_with_places_and_the_commit_they_are_of(made: parts.Parts) -> None:
    tests = {
        "tests/test_square.py": "from app.square import side\n\n\ndef test_side() -> None:\n    assert side() == 1.0\n"
    }
    owner = kb_client.Client(made.kb_url, made.http, attempts=1)
    sent = trees.tree({**trees.FILES, **tests}, scope=parts.SCOPE)
    reply = await owner.code.structure(sent)
    assert (reply.state, reply.stored) == ("Done", len(sent.files))
    tools, _ = await made.box()
    head = f"acme/shop main at {'a' * 12}"
    side = "app/square.py:9 function app.square.side"

    where = await parts.called(tools, "code_where", text="the area of a Square is wrong")
    assert where.text.splitlines()[:2] == [head, "Files:"]
    assert where.text.splitlines()[2].endswith(" app/square.py")
    assert "app/square.py:5 method app.square.Square.area" in where.text.partition("Functions:")[2]
    assert where.data == {"repository": "acme/shop", "branch": "main", "commit": "a" * 40}
    assert where.sources == ("git_branch::acme/shop@main",)

    callers = await parts.called(tools, "code_callers", symbol="side")
    assert callers.text.splitlines()[:2] == [head, side]
    assert {one.partition(" calls ")[0].partition(": ")[2] for one in callers.text.splitlines()[2:]} == {
        "app/square.py:5 method app.square.Square.area", "tests/test_square.py:4 function tests.test_square.test_side",
    }  # fmt: skip
    page = await parts.called(tools, "code_callers", symbol="side", limit=1)
    assert page.text.splitlines()[-1] == "[2 in all. Go on with after=1.]"

    callees = await parts.called(tools, "code_callees", symbol="Square.area")
    assert callees.text.splitlines()[1:] == [
        "app/square.py:5 method app.square.Square.area",
        f"line 6: app/square.py:5 method app.square.Square.area calls {side}",
    ]
    assert "No calls are known." in (await parts.called(tools, "code_callees", symbol="side")).text

    impact = await parts.called(tools, "code_impact", symbol="side", depth=1)
    lines = impact.text.splitlines()
    assert lines[1] == side
    assert lines[lines.index("Tests to run:") + 1 :] == ["tests/test_square.py"]
    assert any(one.startswith("1 steps") and "Square.area" in one for one in lines)

    outline = await parts.called(tools, "code_outline", near=["app/square.py"], tokens=200)
    assert outline.text.startswith(head)
    assert "side" in outline.text

    for name, given in (("code_callers", {"symbol": "nothing.at.all"}), ("code_outline", {"branch": "gone"})):
        assert (await parts.called(tools, name, **given)).failed, name
    foreign = {"lib.rs": "fn total() { rounded() }\nfn rounded() {}\n"}
    await owner.code.structure(trees.tree({**trees.FILES, **tests, **foreign}, scope=parts.SCOPE))
    unknown = await parts.called(tools, "code_callers", symbol="lib.rs:rounded")
    assert unknown.text.splitlines()[0] == f"{head}; calls not known: rust"
    made.rules = "enforce: never-use-source git_branch::acme/shop@main"
    tools, _ = await made.box()
    kept = await parts.called(tools, "code_where", text="area")
    assert (kept.text, kept.failed, kept.sources) == ("A hard rule keeps this branch back.", True, ())
