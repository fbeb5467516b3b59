"""Rules, the memories and the user's context through the typed client, in the real MongoDB wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from contracts.rules import enforce_lines
from crds import scope
from kb import api, client, metrics, mongo
from tests.conftest import ROOT
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.rules import test_enforce
from tests.kb.service import callers, whole
from tests.kb.service.callers import refused, rejected

pytestmark = pytest.mark.services


@pytest.fixture
async def served(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    async with whole.over(kb, meters, clock, database=database) as pair:
        yield pair


def rule(key: str, content: str, owner: scope.Scope = scopes.SHOP, **more: Any) -> api.RuleDraft:
    return test_enforce.draft(content, key, owner, **more)


async def test_versions_and_their_history(kb_client: client.Client, clock: clocks.Clock) -> None:
    first = await kb_client.rules.put(rule("mail", "to core"))
    assert await kb_client.rules.put(rule("mail", "to core")) == first  # a repeated call makes no version
    clock.advance(minutes=1)
    second = await kb_client.rules.put(rule("mail", "to sales"))
    assert (first.version, second.version) == (1, 2)
    assert await kb_client.rules.in_force(scopes.SHOP) == [second]
    newest, oldest = await kb_client.rules.history(scopes.SHOP, "mail")
    assert (newest, oldest.superseded_at) == (second, second.created_at)
    await kb_client.rules.delete(scopes.SHOP, "mail", "petr")
    assert await kb_client.rules.in_force(scopes.SHOP) == []
    [deleted, _] = await kb_client.rules.history(scopes.SHOP, "mail")
    assert (deleted.deleted_at, deleted.deleted_by) == (clock(), "petr")
    assert (await rejected(kb_client.rules.delete(scopes.SHOP, "mail", "petr"))).code == "not_found"
    again = await kb_client.rules.put(rule("mail", "to sales"))
    assert again.version == 3


async def test_a_rule_is_obeyed_where_it_was_made_and_below(kb_client: client.Client) -> None:
    """Written out, because no code says it here: not even the projects of one group obey each other's rules."""
    owners = {"global": scopes.GLOBAL, "client": scopes.ACME, "group": scopes.RETAIL, "other": scopes.OTHER}
    owners |= {"shop": scopes.SHOP, "till": scopes.TILL, "blog": scopes.BLOG}
    for key, owner in owners.items():
        await kb_client.rules.put(rule(key, "same words", owner))
        await kb_client.rules.put(rule("common", f"by {key}; a narrower one switches no wider one off", owner))
    for viewer, obeyed in (
        (scopes.GLOBAL, {"global"}),
        (scopes.ACME, {"global", "client"}),
        (scopes.RETAIL, {"global", "client", "group"}),
        (scopes.SHOP, {"global", "client", "group", "shop"}),
        (scopes.TILL, {"global", "client", "group", "till"}),
        (scopes.make("acme", "shop"), {"global", "client", "shop"}),
        (scopes.BLOG, {"global", "client", "blog"}),
        (scopes.OTHER, {"global", "other"}),
    ):
        found = await kb_client.rules.in_force(viewer)
        assert {one.rule_key for one in found} - {"common"} == obeyed
        assert {one.scope for one in found if one.rule_key == "common"} == {owners[key] for key in obeyed}
        assert {one.scope for one in await kb_client.rules.history(viewer, "common")} == {owners[key] for key in obeyed}


async def test_only_the_asked_type(kb_client: client.Client, http: httpx.AsyncClient) -> None:
    await kb_client.rules.put(rule("a", "x"))
    await kb_client.rules.put(rule("b", "y", rule_type=api.RuleType.SECURITY))
    [one] = await kb_client.rules.in_force(scopes.SHOP, api.RuleType.SECURITY)
    assert one.rule_key == "b"
    wrong = await http.get("/api/v1/rules", params={"clientId": "acme", "ruleType": "NONSENSE"})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "ruleType")
    assert "SECURITY" in wrong.json()["error"]["remedy"]


PERMIT = "enforce: permit tool=sendMail targets=*@example.com notAfter="


async def test_a_standing_permit_is_a_rule_as_others_are(kb_client: client.Client, clock: clocks.Clock) -> None:
    until = (clock() + timedelta(days=30)).isoformat()
    first = await kb_client.rules.put(rule("mails", PERMIT + until, rule_type=api.RuleType.SECURITY))
    assert await kb_client.rules.put(rule("mails", PERMIT + until, rule_type=api.RuleType.SECURITY)) == first
    [permit] = enforce_lines.permitted((await kb_client.rules.in_force(scopes.SHOP))[0].rule_content)
    assert (permit.tool, permit.targets, permit.not_after) == ("sendMail", ("*@example.com",), clock() + timedelta(30))
    assert await kb_client.rules.in_force(scopes.OTHER) == []


async def test_a_standing_permit_that_is_wrong_is_refused_with_its_field(
    kb_client: client.Client, clock: clocks.Clock
) -> None:
    later, ended = ((clock() + timedelta(days=days)).isoformat() for days in (30, 0))
    security = api.RuleType.SECURITY
    for content, kind, says in (
        (PERMIT + later, api.RuleType.CUSTOM, "in a rule of type SECURITY alone"),
        ("enforce: permit tool=sendMail", security, "notAfter: a standing permit ends"),
        (f"enforce: permit tool=sendMial notAfter={later}", security, "tool: 'sendMial' must be one of"),
        (f"enforce: permit tool=sendMail to=ann notAfter={later}", security, "'to=ann' is no field of a permit"),
        (PERMIT + ended, security, "notAfter: the permit for sendMail has ended"),
    ):
        draft = rule("mails", "x").model_copy(update={"rule_content": content, "rule_type": kind})
        told = await rejected(kb_client.rules.put(draft))
        assert says in told.message
        assert told.field == "ruleContent"
    assert await kb_client.rules.in_force(scopes.SHOP) == []


async def test_writers_at_once_make_a_row_of_versions(kb_client: client.Client) -> None:
    made = await asyncio.gather(*(kb_client.rules.put(rule("mail", f"to {number}")) for number in range(6)))
    assert sorted(one.version for one in made) == [1, 2, 3, 4, 5, 6]
    [held] = await kb_client.rules.in_force(scopes.SHOP)
    assert held.version == 6


async def test_a_week_and_fifty_entries(kb_client: client.Client, clock: clocks.Clock) -> None:
    def entry(number: int) -> api.SessionDraft:
        return api.SessionDraft(scope=scopes.SHOP, source="chat", summary=f"said {number}", id=f"e{number}")

    for number in range(55):
        clock.advance(minutes=1)
        await calls.remember(kb_client, entry(number))
    assert (await calls.remember(kb_client, entry(54))).timestamp == clock()  # again: the same entry
    found = await kb_client.memory.session(scopes.SHOP)
    assert [one.summary for one in found] == [f"said {number}" for number in range(54, 4, -1)]
    assert await kb_client.memory.session(scopes.BLOG) == []
    assert await kb_client.memory.session(scopes.ACME) == []
    clock.advance(days=7)
    assert await kb_client.memory.session(scopes.SHOP) == []
    with pytest.raises(ValueError, match="200 characters"):
        api.SessionDraft(scope=scopes.SHOP, source="chat", summary="x" * 201)


async def test_entries_of_the_job_are_read_as_they_are(
    kb_client: client.Client, database: mongo.Database, clock: clocks.Clock
) -> None:
    """The document that `orchestrator_job.effects.results.RememberSession` writes."""
    owner = {"clientId": "acme", "projectId": "shop", "groupId": ""}
    times = {"timestamp": clock(), "expiresAt": clock() + timedelta(days=7)}
    said = {"source": "background", "summary": "Answered.", "details": None, "taskId": "uid-1"}
    document: dict[str, Any] = {"_id": "effect-key", **owner, **times, **said}
    await database["session_memory"].insert_one(document)
    [entry] = await kb_client.memory.session(scopes.SHOP)
    assert (entry.id, entry.task_id, entry.summary) == ("effect-key", "uid-1", "Answered.")


async def test_what_happened_in_a_group_is_shown_in_that_group_alone(
    kb_client: client.Client, clock: clocks.Clock
) -> None:
    news = scopes.make("acme", "", "news")
    owners = {"client": scopes.ACME, "retail": scopes.RETAIL, "news": news, "shop": scopes.SHOP}
    for said, owner in owners.items():
        clock.advance(minutes=1)
        entry = await calls.remember(kb_client, api.SessionDraft(scope=owner, source="chat", summary=said, id="e1"))
        assert entry.summary == said, "the same id in another scope is another entry"
    for viewer, shown in (
        (scopes.ACME, ["client"]),
        (scopes.RETAIL, ["retail"]),
        (news, ["news"]),
        (scopes.SHOP, ["shop"]),
        (scopes.make("acme", "shop"), ["shop"]),
        (scopes.make("acme", "", "other"), []),
    ):
        assert sorted(one.summary for one in await kb_client.memory.session(viewer)) == shown, viewer


async def test_a_tasks_memory(kb_client: client.Client, database: mongo.Database, clock: clocks.Clock) -> None:
    """The document that the operator writes, and what a run adds."""
    known = {"contextSummary": "A login bug.", "graphNodeKeys": ["jira::JERV-1"], "ragDocumentIds": ["c1"]}
    document: dict[str, Any] = {"_id": "uid-1", "taskUid": "uid-1", "scope": callers.SHOP, **known, "sourceUrn": None}
    await database["task_memory"].insert_one(document)
    found = await calls.task_memory(kb_client, scopes.SHOP, "uid-1")
    assert (found.context_summary, found.graph_node_keys) == ("A login bug.", ["jira::JERV-1"])
    findings = api.Findings(scope=scopes.SHOP, structured_data={"branch": "fix/login", "files": ["a", "b"]})
    changed = await calls.add_findings(kb_client, "uid-1", findings)
    assert changed.structured_data == {"branch": "fix/login", "files": ["a", "b"]}
    assert changed.updated_at == clock()
    for viewer, uid in ((scopes.BLOG, "uid-1"), (scopes.OTHER, "uid-1"), (scopes.SHOP, "uid-2")):
        assert (await rejected(calls.task_memory(kb_client, viewer, uid))).code == "not_found"


async def test_the_tasks_of_a_conversation(kb_client: client.Client, database: mongo.Database) -> None:
    """One of an older release lacks the newer fields; of another project's and client's nothing is shown."""
    shop, blog, other = (mongo.names(one) for one in (scopes.SHOP, scopes.BLOG, scopes.OTHER))
    rows: list[dict[str, Any]] = [
        {"_id": "b", "taskUid": "b", "scope": shop, "correlationId": "c-1", "sourceType": "JIRA", "sourceId": "JERV-1"},
        {"_id": "a", "taskUid": "a", "scope": shop, "correlationId": "c-1", "sourceUrn": "email::<1@host>"},
        {"_id": "x", "taskUid": "x", "scope": blog, "correlationId": "c-1"},
        {"_id": "y", "taskUid": "y", "scope": other, "correlationId": "c-1"},
        {"_id": "z", "taskUid": "z", "scope": shop, "correlationId": "c-2"},
    ]
    for row in rows:
        await database["task_memory"].insert_one(row)
    found = await calls.conversation(kb_client, scopes.SHOP, "c-1")
    assert [(one.task_uid, one.source_type, one.source_id) for one in found] == [
        ("a", None, None),
        ("b", "JIRA", "JERV-1"),
    ]
    assert await calls.conversation(kb_client, scopes.SHOP, "c-3") == []


async def test_procedures_the_users_first_then_what_works_and_is_used(
    kb_client: client.Client, clock: clocks.Clock
) -> None:
    steps = [api.Step(agent="CodeReviewAgent", action="review"), api.Step(agent="DevOps", action="deploy")]

    async def save(trigger: str, source: Any = "learned") -> api.Procedure:
        draft = api.ProcedureDraft(client_id="acme", trigger_pattern=trigger, procedure_steps=steps, source=source)
        return await kb_client.memory.save_procedure(draft)

    good, bad = await save("bug_report"), await save("email_with_question")
    for _ in range(4):
        await kb_client.memory.use_procedure(api.Use(client_id="acme", id=good.id, succeeded=True))
        await kb_client.memory.use_procedure(api.Use(client_id="acme", id=bad.id, succeeded=False))
    mine = await save("bug_report", "user_defined")
    found = await kb_client.memory.procedures("acme")
    assert [one.id for one in found] == [mine.id, good.id, bad.id]
    assert (found[1].success_rate, found[1].usage_count, found[1].last_used) == (1.0, 4, clock())
    assert [one.id for one in await kb_client.memory.procedures("acme", "bug_report")] == [mine.id, good.id]
    assert await kb_client.memory.procedures("other") == []
    # Unused for half a year, even what always worked weighs less than what was used today and half failed.
    clock.advance(days=180)
    await kb_client.memory.use_procedure(api.Use(client_id="acme", id=bad.id, succeeded=True))
    assert [one.id for one in await kb_client.memory.procedures("acme")] == [mine.id, bad.id, good.id]
    with pytest.raises(client.Rejected):
        await kb_client.memory.use_procedure(api.Use(client_id="other", id=good.id, succeeded=True))
    await kb_client.memory.forget_procedure("acme", good.id)
    assert len(await kb_client.memory.procedures("acme")) == 2


async def test_the_lightest_of_too_many_learned_ones_goes(kb_client: client.Client, clock: clocks.Clock) -> None:
    step = [api.Step(agent="A", action="b")]
    for number in range(201):
        clock.advance(hours=1)
        draft = api.ProcedureDraft(client_id="acme", trigger_pattern=f"t{number}", procedure_steps=step)
        await kb_client.memory.save_procedure(draft)
    found = await kb_client.memory.procedures("acme", limit=200)
    assert len(found) == 200
    assert {one.trigger_pattern for one in found} == {f"t{number}" for number in range(1, 201)}


PROCEDURES = {path.stem: path.read_text() for path in sorted((ROOT / "examples" / "procedures").glob("*.json"))}


@pytest.mark.parametrize("name", PROCEDURES)
async def test_each_example_is_a_procedure(kb_client: client.Client, http: httpx.AsyncClient, name: str) -> None:
    sent = json.loads(PROCEDURES[name])
    answer = await http.put("/api/v1/memory/procedural", json=sent)
    assert answer.status_code == 200, answer.text
    [made] = await kb_client.memory.procedures("acme", name.replace("-", "_"))
    assert made.source == "user_defined"
    assert made.procedure_steps == [{"parameters": {}, **step} for step in sent["procedureSteps"]]


async def test_parameters_of_a_step_are_bounded(http: httpx.AsyncClient) -> None:
    step = {"agent": "Git", "action": "push", "parameters": {f"p{n}": n for n in range(21)}}
    sent = {"clientId": "acme", "triggerPattern": "x", "procedureSteps": [step]}
    assert refused(await http.put("/api/v1/memory/procedural", json=sent)) == (422, "procedureSteps.0.parameters")


async def test_a_run_reads_the_last_days_and_the_procedures_and_counts_their_use(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> None:
    draft = api.ProcedureDraft(
        client_id="acme", trigger_pattern="bug_report", procedure_steps=[api.Step(agent="Test", action="run")]
    )
    entry = api.SessionDraft(scope=scopes.SHOP, source="chat", summary="said", id="e1")
    async with whole.over(kb, meters, clock, database=database, gate=callers.gate(now=clock)) as (own, raw):

        def of_a_run(**more: Any) -> client.Client:
            return client.Client(str(raw.base_url), raw, callers.signed(now=clock, **more))

        await own.memory.save_procedure(draft)
        await calls.remember(own, entry)
        run = of_a_run()
        [found] = await run.memory.procedures("acme", viewer=scopes.SHOP)
        assert found.trigger_pattern == "bug_report"
        assert [one.summary for one in await run.memory.session(scopes.SHOP)] == ["said"]
        with pytest.raises(client.Rejected, match="may not read in this scope"):
            await run.memory.procedures("acme")
        assert (await run.memory.use_procedure(api.Use(client_id="acme", id=found.id, succeeded=True))).usage_count == 1
        with pytest.raises(client.Rejected, match="may not"):
            await run.memory.use_procedure(api.Use(client_id="other", id=found.id, succeeded=True))
        with pytest.raises(client.Rejected, match="may not call"):
            await calls.remember(run, entry)
        # What its user has answered it writes down; what a user has defined it does not replace.
        defined = draft.model_copy(update={"source": "user_defined"})
        with pytest.raises(client.Rejected, match="has no answer of a user"):
            await run.memory.save_procedure(defined)
        run = of_a_run(teaches=True)
        for _ in range(2):
            assert (await run.memory.save_procedure(defined)).source == "user_defined"
        other = [api.Step(agent="Test", action="run", parameters={"folder": "tests"})]
        with pytest.raises(client.Rejected, match="replaces no procedure that a user has defined"):
            await run.memory.save_procedure(defined.model_copy(update={"procedure_steps": other}))
        with pytest.raises(client.Rejected, match="may not"):
            await run.memory.save_procedure(defined.model_copy(update={"client_id": "other"}))
        # An entry does not say who may see what it sums up.
        restricted = of_a_run(principals=("user:eve",))
        assert await restricted.memory.session(scopes.SHOP) == []
        with pytest.raises(client.Rejected, match="may not call"):
            await restricted.memory.save_procedure(defined)
        with pytest.raises(client.Rejected, match="may not call"):
            await restricted.memory.use_procedure(api.Use(client_id="acme", id=found.id, succeeded=True))


async def test_a_run_writes_a_rule_in_its_own_name_and_replaces_none_of_a_person(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> None:
    async with whole.over(kb, meters, clock, database=database, gate=callers.gate(now=clock)) as (own, raw):

        def of_a_run(*rules: str) -> client.Client:
            return client.Client(str(raw.base_url), raw, callers.signed(now=clock, attempt=1, rules=rules))

        theirs = await own.rules.put(rule("mail", "to core"))
        run = of_a_run("mail")
        for key in ("mail", "learned.other", "learned.mail.more", "LEARNED.mail"):
            with pytest.raises(client.Rejected, match="may not write the rule"):
                await run.rules.put(rule(key, "to the attacker"))
        with pytest.raises(client.Rejected, match="may not call"):
            await of_a_run().rules.put(rule("learned.mail", "to the attacker"))
        permit = f"{PERMIT}{(clock() + timedelta(days=1)).isoformat()}"
        with pytest.raises(client.Rejected, match="may not write a permit"):
            await run.rules.put(rule("learned.mail", permit, rule_type=api.RuleType.SECURITY))
        made = await run.rules.put(rule("learned.mail", "to sales"))
        assert made.created_by == "run 1 of task 0b7f in team-a, approved by a person"
        assert {one.rule_key: one.rule_content for one in await own.rules.in_force(scopes.SHOP)} == {
            "mail": theirs.rule_content,
            "learned.mail": made.rule_content,
        }
