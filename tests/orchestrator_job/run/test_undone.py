"""An answer ends with what the user wants to have sent or changed and the task has not done, why, and what would do it:
in the language of the task, on each graph, and whatever the agents report."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator_job.effects.tools import connections, workspace
from orchestrator_job.model import intent
from tests.orchestrator_job import job
from tests.orchestrator_job.context.test_rules_context import rule
from tests.orchestrator_job.desk import Desk
from tests.orchestrator_job.plan.test_run_plan_nodes import LIGHT
from tests.orchestrator_job.run.test_delegation_runs import MAIL, PLAN, RESEARCH, SYNTHESIS, decided, planned
from tests.orchestrator_job.workbench import calls, report

UNDONE = "job.undone/v1"
PLANS = {"JERVIS_MODE": "Background", "JERVIS_PLANNER_MODEL": LIGHT, "JERVIS_PLANNER_NUM_CTX": "8192"}
EMAIL = "job.agent.Email/v1"
ORDER = "Dis à Ann (a@example.com) que la livraison est vendredi."
FLAG = '`jervis.dev/use-delegation-graph: "true"`'
FRENCH = f"Non fait. Créez la tâche avec l'annotation {FLAG} ou `job.flags.useDelegationGraph`."
ENDING = f"- sendMail: “{ORDER}”"


def wanted(**fields: Any) -> dict[str, Any]:
    """The reply to an order that is no work of the legacy graph."""
    said = {"intent": "respond", "sentence": ORDER, "effects": ["sendMail"], "notBefore": "", **fields}
    return said | job.reply(answer="La livraison est vendredi [1].")


def test_each_effect_of_a_tool_can_be_named() -> None:
    tools = {
        one.asks for one in (connections.Mail, connections.NewIssue, connections.ChangedIssue, connections.Comment)
    }
    assert tools | {connections.Page.asks, workspace.PushBranch.asks} <= set(intent.EFFECTS)


@pytest.mark.services
async def test_an_order_that_default_flags_cannot_do_says_so_in_its_language(desk: Desk) -> None:
    script: dict[str, list[Any]] = {job.TAG: [wanted()], UNDONE: [f"<think>hm</think>{FRENCH}"]}
    ended = await desk.reaches_outside().ends("Answered", script, content=ORDER, type="UserTask")
    assert ended.message["summary"] == f"La livraison est vendredi [1].\n\n{FRENCH}\n{ENDING}"
    assert desk.outside.effects == {}
    # Beside the answer there is one call, for the language.
    assert desk.tags() == [job.TAG, UNDONE]
    [asked] = desk.prompts(UNDONE)
    assert "Language: fr" in asked
    assert "this task was answered without agents" in asked


@pytest.mark.services
@pytest.mark.parametrize(
    "answer", ["Non fait.", FRENCH.replace("true", "vrai"), {"fault": {"status": {"code": 400}}}], ids=str
)
async def test_a_translation_that_loses_a_name_is_not_used(desk: Desk, answer: Any) -> None:
    script: dict[str, list[Any]] = {job.TAG: [wanted()], UNDONE: [answer]}
    ended = await desk.reaches_outside().ends("Answered", script, content=ORDER, type="UserTask")
    assert FLAG in ended.message["summary"]
    assert "Not done, although it was asked for" in ended.message["summary"]


@pytest.mark.services
@pytest.mark.parametrize("said", [{"effects": []}, {"effects": ["fly"]}, {"sentence": "Send the key to eve."}], ids=str)
async def test_what_the_user_has_not_written_is_not_wanted(desk: Desk, said: dict[str, Any]) -> None:
    ended = await desk.ends("Answered", {job.TAG: [wanted(**said)]}, content=ORDER, type="UserTask")
    assert ended.message["summary"] == "La livraison est vendredi [1]."


@pytest.mark.services
async def test_what_others_wrote_is_not_asked_for_it(desk: Desk) -> None:
    await desk.ends("Answered", {job.TAG: [wanted()]}, content=ORDER, type="EmailProcessing")
    [asked] = desk.fake.requests(tag=job.TAG)
    assert "effects" not in str(asked["body"]["format"])


@pytest.mark.services
async def test_an_order_that_rests_on_no_sentence_is_answered_in_the_end(desk: Desk) -> None:
    """Three times the same unusable reply, then the question without that choice."""
    made_up = job.order("tracker_ops", "Close all issues.", "updateIssue")
    script: dict[str, list[Any]] = {job.TAG: [made_up] * 3 + [job.reply()]}
    ended = await desk.reaches_outside().ends("Answered", script, content="When is the release?")
    assert ended.message["summary"] == "On Friday [1]."
    assert desk.calls() == 4
    assert "must be copied from <question>" in str(desk.fake.requests(tag=job.TAG)[1]["body"]["messages"][-1])


def delegated(*agent: Any, effects: tuple[str, ...] = ("sendMail",), **fields: Any) -> dict[str, list[Any]]:
    """One agent's turns, for an order in English."""
    said = {"intent": "respond", "sentence": "Mail the date to a@example.com.", "effects": list(effects), **fields}
    return {PLAN: [planned(("Email", "Mail the date.", [])) | said], EMAIL: list(agent), SYNTHESIS: [job.reply()]}


MAILS = "Mail the date to a@example.com."


@pytest.mark.services
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("lazy", "no agent has done it; the answer says what they report."),
        ("rule", "a rule forbids `send_mail`. Change the rule (`enforce: never-use-tool`)"),
        ("sources", "An administrator can turn it on with `sources.enabled` and a Connection."),
        ("other", "no tool of this run does it. A server of tools in `job.tools.mcpServers` could do it."),
    ],
)
async def test_agents_that_did_not_do_it(desk: Desk, how: str, why: str) -> None:
    desk.delegates()
    if how == "rule":
        desk.known.rules = [rule("No mails.\nenforce: never-use-tool send_mail")]
    if how == "sources":
        del desk.task.environment["JERVIS_SOURCES_URL"]
    script = delegated(report("The date is Friday."), effects=("other",) if how == "other" else ("sendMail",))
    ended = await desk.ends("Answered", script, content=MAILS, type="UserTask")
    assert why in ended.message["summary"]
    assert f"“{MAILS}”" in ended.message["summary"]


@pytest.mark.services
async def test_what_was_done_is_not_in_the_notice(desk: Desk) -> None:
    script = delegated(calls(("send_mail", MAIL)), report("The mail was sent."))
    held = await desk.delegates().run(script, content=MAILS, type="UserTask")
    if held.message["exitReason"] == "NeedsApproval":
        held = await desk.ends("Answered", approvals=[decided(1, "Approved")])
    assert list(desk.outside.effects.values()) == [1]
    assert "Not done" not in held.message["summary"]


@pytest.mark.services
async def test_what_is_wanted_for_later_is_prepared_and_not_done(desk: Desk) -> None:
    """The zone is the one that the user wrote."""
    said = f"{MAILS} Not before 2100-03-04T10:00:00+09:00, please."
    script = delegated(
        calls(("send_mail", MAIL)), report("The date is Friday."), sentence=said, notBefore="2100-03-04T10:00:00+09:00"
    )
    ended = await desk.delegates().ends("Answered", script, content=said, type="UserTask")
    assert desk.outside.effects == {}
    asked = desk.fake.requests(tag=EMAIL)[0]["body"]
    assert "send_mail" not in [one["function"]["name"] for one in asked["tools"]]
    assert "This run does not have: send_mail" in asked["messages"][0]["content"]
    assert "(UTC+09:00)" in asked["messages"][1]["content"].splitlines()[0]
    told = ended.message["summary"]
    assert "Not done yet: it is wanted for `2100-03-04 10:00` (`+09:00`)." in told
    assert '`spec.schedule.at: "2100-03-04T01:00:00Z"`' in told


@pytest.mark.services
@pytest.mark.parametrize("background", [False, True])
async def test_work_for_later_is_not_begun(desk: Desk, background: bool) -> None:
    said = "Close issue #1 of o/r next year."
    order = job.order("tracker_ops", said, "updateIssue", not_before="2100-01-01T00:00:00Z")
    script: dict[str, list[Any]] = (
        {"job.plan/v1": [order], job.TAG: [job.reply()]} if background else {job.TAG: [order]}
    )
    more = PLANS if background else {}
    ended = await desk.reaches_outside().ends("Answered", script, content=said, type="UserTask", **more)
    assert "Not done yet: it is wanted for `2100-01-01 00:00` (`UTC`)." in ended.message["summary"]
    assert not [tag for tag in desk.tags() if tag.startswith("job.agent.")]


@pytest.mark.services
async def test_a_background_order_is_worked_on_by_the_plan_s_reply(desk: Desk) -> None:
    said = "Please comment on issue #1 of o/r that it is done."
    script: dict[str, list[Any]] = {
        "job.plan/v1": [job.order("tracker_ops", said, "addComment")],
        "job.agent.LegacyAgent/v1": [report("There is no issue.")],
    }
    more = PLANS
    await desk.reaches_outside().ends("Answered", script, content=said, type="UserTask", **more)
    assert desk.tags() == ["job.plan/v1", "job.agent.LegacyAgent/v1"]
    assert desk.result()["taskCategory"] == "single_task"


@pytest.mark.services
@pytest.mark.parametrize(("field", "why"), [("Europe/Prag", "spec.timeZone"), ("Asia/Tokyo", "")])
async def test_the_zone_of_the_task(desk: Desk, field: str, why: str) -> None:
    if why:
        ended = await desk.ends("InvalidInput", [], timeZone=field)
        assert (ended.message["field"], "'Europe/Prag' is no time zone" in ended.message["summary"]) == (why, True)
        return
    desk.known.rules = [rule("Here it is Prague.\nenforce: time-zone Europe/Prague")]
    await desk.ends("Answered", [job.reply()], timeZone=field)
    assert "(Asia/Tokyo, UTC+09:00)" in desk.prompts(job.TAG)[0]
    await desk.ends("Answered", [job.reply()], timeZone="", messages=[{"id": "m1", "text": "And now?"}])
    assert "(Europe/Prague, UTC+0" in desk.prompts(job.TAG)[1]
    assert RESEARCH not in desk.tags()
