"""Reports of agents, as models really write them, and what a parent makes of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator_job.agents import protocol
from orchestrator_job.store import delegation_models

REPORT = """\
STATUS: 1
RESULT: The release is on Friday.
Ann tests it.
ARTIFACTS: docs/release.md, commit 4f2a
ISSUES: none
CONFIDENCE: 0.85
NEEDS_VERIFICATION: false"""
BODY = "The release is on Friday.\nAnn tests it."


def parse(text: str) -> delegation_models.AgentOutput:
    return protocol.parse(text, delegation_id="r1.d1", agent_name="Research")


def test_a_report_as_it_should_be() -> None:
    found = parse(REPORT)
    assert (found.delegation_id, found.agent_name) == ("r1.d1", "Research")
    assert (found.success, found.result, found.confidence, found.needs_verification) == (True, BODY, 0.85, False)
    assert found.artifacts == ("docs/release.md", "commit 4f2a")
    assert found.structured_data == {"status": "1", "issues": [], "missing": []}


def test_the_instructions_name_every_field_and_the_template_itself_is_no_report() -> None:
    for name in ("STATUS", "RESULT", "ARTIFACTS", "ISSUES", "CONFIDENCE", "NEEDS_VERIFICATION"):
        assert f"\n{name}: " in protocol.INSTRUCTIONS
    found = parse(
        "STATUS: 1 (success) | 0 (failure) | P (partial)\nRESULT: x\nCONFIDENCE: 0.0-1.0\n"
        "NEEDS_VERIFICATION: true/false"
    )
    assert found.structured_data["status"] == "P"
    assert found.confidence == protocol.UNSAID
    assert found.needs_verification


SHAPES = {
    "a fence around it": f"```\n{REPORT}\n```",
    "a fence with a language": f"Here it is:\n\n```text\n{REPORT}\n```\n",
    "a fence that is not closed": f"```\n{REPORT}",
    "bold keys": REPORT.replace("STATUS:", "**STATUS:**").replace("RESULT:", "**RESULT:**").replace(
        "CONFIDENCE:", "**CONFIDENCE**:"
    ),
    "lower case": REPORT.replace("STATUS", "Status").replace("RESULT", "result").replace("ARTIFACTS", "artifacts")
    .replace("ISSUES", "Issues").replace("CONFIDENCE", "confidence")
    .replace("NEEDS_VERIFICATION", "needs verification"),
    "bullets": "\n".join(f"- {line}" if ": " in line else line for line in REPORT.split("\n")),
    "numbers": "\n".join(f"{n}. {line}" if ": " in line else line for n, line in enumerate(REPORT.split("\n"), 1)),
    "headings": REPORT.replace("STATUS: ", "## STATUS\n").replace("RESULT: ", "## RESULT\n").replace(
        "ARTIFACTS: ", "## ARTIFACTS\n").replace("ISSUES: ", "## ISSUES\n").replace(
        "CONFIDENCE: ", "## CONFIDENCE\n\n").replace("NEEDS_VERIFICATION: ", "## NEEDS_VERIFICATION\n"),
    "equals signs": REPORT.replace(": ", " = "),
    "windows": REPORT.replace("\n", "\r\n"),
    "indented": "\n".join(f"   {line}" if ": " in line else line for line in REPORT.split("\n")),
    "another order": (
        "CONFIDENCE: 0.85\nNEEDS_VERIFICATION: false\nISSUES: none\nARTIFACTS: docs/release.md, commit 4f2a\n"
        f"STATUS: 1\nRESULT: {BODY}"
    ),
    "result first": f"RESULT: {BODY}\nSTATUS: 1\nCONFIDENCE: 0.85\nISSUES: none\nNEEDS_VERIFICATION: no\n"
    "ARTIFACTS: docs/release.md, commit 4f2a",
    "decimal comma": REPORT.replace("0.85", "0,85"),
    "percent": REPORT.replace("0.85", "85 %"),
    "words": REPORT.replace("STATUS: 1", "STATUS: success").replace("false", "No, it is cited."),
    "a status with its meaning": REPORT.replace("STATUS: 1", "STATUS: 1 (success)"),
    "lists": REPORT.replace("docs/release.md, commit 4f2a", "\n- docs/release.md\n- `commit 4f2a`"),
    "thoughts before it": f"<think>\nSTATUS: 0\nRESULT: not this\n</think>\n\n{REPORT}",
    "blank lines": REPORT.replace("\nARTIFACTS", "\n\nARTIFACTS").replace("\nISSUES", "\n\n\nISSUES"),
    "JSON": json.dumps({"status": 1, "result": BODY, "artifacts": ["docs/release.md", "commit 4f2a"], "issues": [],
                        "confidence": 0.85, "needs_verification": False}),
    "JSON with camelCase in a fence": "Done.\n```json\n" + json.dumps(
        {"Status": "1", "Result": BODY, "Artifacts": "docs/release.md\ncommit 4f2a", "Issues": "none",
         "Confidence": "0.85", "needsVerification": "false"}, indent=2) + "\n```",
}  # fmt: skip


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES.keys())
def test_real_shapes_say_the_same(text: str) -> None:
    found = parse(text)
    assert found.result == BODY
    assert (found.success, found.confidence, found.needs_verification) == (True, 0.85, False)
    assert found.artifacts == ("docs/release.md", "commit 4f2a")
    assert (found.structured_data["issues"], found.structured_data["missing"]) == ([], [])


LOOKALIKES = [
    "Status: open\nPriority: high",
    "```yaml\nSTATUS: 0\nCONFIDENCE: 0.1\n```\nThat is the file.",
    "The agent below said:\nSTATUS: 0\nRESULT: nothing\nCONFIDENCE: 0.1\nNEEDS_VERIFICATION: true\nand it was wrong.",
    "CONFIDENCE: the interval is 95 %",
    "ISSUES: 3 are open\n- A-1\n- A-2",
    "```python\nprint('never closed')",
    "| STATUS | 0 |",
    '{"status": "0"}',
    "x" * 50_000,
]


@pytest.mark.parametrize("body", LOOKALIKES)
def test_lines_of_a_result_that_look_like_fields_stay_in_it(body: str) -> None:
    found = parse(REPORT.replace(BODY, body))
    assert found.result == body
    assert (found.success, found.confidence, found.needs_verification) == (True, 0.85, False)


def test_fields_that_come_twice() -> None:
    found = parse(f"{REPORT}\nCONFIDENCE: 0.4\nISSUES: the date may move\n")
    assert found.result.startswith(BODY)
    assert (found.confidence, found.structured_data["issues"]) == (0.4, ["the date may move"])


@pytest.mark.parametrize(
    ("text", "status", "result", "confidence", "missing"),
    [
        ("", "0", "", 0.0, 6),
        ("   \n", "0", "", 0.0, 6),
        ("The release is on Friday.", "P", "The release is on Friday.", protocol.UNREPORTED, 6),
        ("RESULT: Friday.", "P", "Friday.", protocol.UNSAID, 5),
        ("STATUS: 1\nIt is on Friday.", "1", "It is on Friday.", protocol.UNSAID, 5),
        ("STATUS: 0\nISSUES: the host is away", "0", "", 0.0, 4),
        ("STATUS: P\nRESULT: half\nCONFIDENCE: 2.5\nNEEDS_VERIFICATION: maybe", "P", "half\nCONFIDENCE: 2.5\n"
         "NEEDS_VERIFICATION: maybe", protocol.UNSAID, 4),
        ("{}", "P", "{}", protocol.UNREPORTED, 6),
        ('{"result": {"date": "Friday"}}', "P", '{"date": "Friday"}', protocol.UNSAID, 5),
    ],
    ids=["nothing", "blank", "no field", "only a result", "no result", "failure", "unreadable", "no object", "object"],
)  # fmt: skip
def test_what_is_missing_gets_a_cautious_value(
    text: str, status: str, result: str, confidence: float, missing: int
) -> None:
    found = parse(text)
    assert (found.structured_data["status"], found.result, found.confidence) == (status, result, confidence)
    listed = found.structured_data["missing"]
    assert isinstance(listed, list)
    assert len(listed) == missing
    assert found.needs_verification


def test_text_around_the_fields_is_kept() -> None:
    found = parse(f"I looked at both mails.\n\n{REPORT}\n\nLet me know if you need more.")
    assert found.result == BODY
    assert found.structured_data["remarks"] == "I looked at both mails.\n\n\nLet me know if you need more."
    between = parse("STATUS: 1\nRESULT: one\nCONFIDENCE: 0.9\ntwo\nISSUES: none\nNEEDS_VERIFICATION: false")
    assert between.result == "one\ntwo"


@pytest.mark.parametrize(
    ("said", "read"),
    [("0.7", 0.7), (".7", 0.7), ("0,7", 0.7), ("70%", 0.7), ("70", 0.7), ("7/10", 0.7), ("7 out of 10", 0.7),
     ("1", 1.0), ("0", 0.0), ("1.0", 1.0), ("**0.7**", 0.7), ("0.7 (two sources)", 0.7), ("High", 0.9), ("medium", 0.6),
     ("low, as it is old", 0.3), ("1.7", None), ("-0.5", None), ("nan", None), ("7/0", None), ("1.000.000", None),
     ("highway", None), ("9" * 400, None)],
)  # fmt: skip
def test_confidence(said: str, read: float | None) -> None:
    found = parse(f"STATUS: 1\nRESULT: x\nCONFIDENCE: {said}\nISSUES: none")
    assert found.confidence == pytest.approx(protocol.UNSAID if read is None else read)


def output(**fields: object) -> delegation_models.AgentOutput:
    whole = {"delegation_id": "r1.d1", "agent_name": "A", "success": True, "result": "x", "confidence": 0.9}
    return delegation_models.AgentOutput.model_validate({**whole, "needs_verification": False, **fields})


PARTIAL = {"success": False, "structured_data": {"status": "P", "issues": []}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, protocol.Accept()),
        ({"confidence": protocol.ACCEPTED}, protocol.Accept()),
        ({"needs_verification": True}, protocol.Accept(verify=True)),
        ({"confidence": 0.69}, protocol.Accept(verify=True)),
        ({"confidence": protocol.DOUBTED}, protocol.Accept(verify=True)),
        ({"confidence": 0.39}, protocol.Retry("The confidence was 0.39.")),
        (PARTIAL, protocol.Accept(verify=True)),
        ({**PARTIAL, "confidence": 0.3}, protocol.Retry("The confidence was 0.3.")),
        ({"result": " ", "confidence": 0.2}, protocol.Retry("There was no RESULT.")),
        ({"success": False}, protocol.Escalate("The agent reports that it cannot do this.")),
        (
            {"success": False, "structured_data": {"status": "0", "issues": ["no such repository"]}},
            protocol.Escalate("no such repository"),
        ),
        (
            {"success": False, "confidence": 0.2, "structured_data": {"status": "0", "issues": ["the host is away"]}},
            protocol.Retry("the host is away"),
        ),
    ],
)
def test_verdict(fields: dict[str, object], expected: object) -> None:
    assert protocol.verdict(output(**fields)) == expected


def test_another_agent_has_it_after_the_retries() -> None:
    poor = output(confidence=0.1)
    assert isinstance(protocol.verdict(poor, tries=protocol.RETRIES - 1), protocol.Retry)
    assert protocol.verdict(poor, tries=protocol.RETRIES) == protocol.Escalate("The confidence was 0.1.")


def test_a_report_that_repeats_itself_is_no_success() -> None:
    said = protocol.endless(parse("STATUS: 1\nRESULT: The months:\n| 2024 | 0 |\n| 2024 | 0 |\nCONFIDENCE: 0.9"))
    assert (said.success, said.structured_data["status"], said.needs_verification) == (False, "P", True)
    assert protocol.verdict(said) == protocol.Retry("The report has no end: it repeats itself.")
    assert isinstance(protocol.verdict(said, tries=protocol.RETRIES), protocol.Escalate)
    assert protocol.endless(parse("")).structured_data["status"] == "0"


def test_the_verdict_on_a_text_without_fields_says_what_was_missing() -> None:
    given = protocol.verdict(parse("It is on Friday."))
    assert isinstance(given, protocol.Retry)
    assert given.why.startswith("The report had no STATUS, RESULT,")


# --- any text -------------------------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    ["STATUS: 1", "STATUS: 0", "status: p", "RESULT:", "RESULT: x", "**Result:** y", "ARTIFACTS: a, b", "ISSUES:",
     "- ISSUES: none", "CONFIDENCE: 0,5", "CONFIDENCE: ", "CONFIDENCE: 1e9", "NEEDS_VERIFICATION: true", "```",
     "```json", "{", "}", '{"result": 1}', "<think>", "</think>", "| STATUS | 1 |", "# RESULT", "* " * 20, "\ud800",
     "\u2028", "\r"]
)  # fmt: skip
_TEXTS = st.one_of(st.text(), st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=25).map("\n".join))


@given(_TEXTS)
def test_any_text_is_read(text: str) -> None:
    found = parse(text)
    assert 0 <= found.confidence <= 1
    assert delegation_models.AgentOutput.model_validate_json(found.model_dump_json()) == found
    protocol.verdict(found)


@given(_TEXTS.filter(lambda text: "</think>" not in text.lower()))
def test_a_result_of_any_text_is_whole(body: str) -> None:
    """Whatever stands in it: fences, fields, a whole report."""
    body = body.encode("utf-8", "replace").decode().replace("\r\n", "\n")
    found = parse(REPORT.replace(BODY, body))
    assert found.result == body.strip()
    assert (found.success, found.confidence, found.needs_verification) == (True, 0.85, False)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["status", "RESULT", "confidence", "issues", "x"]), inner)
    ),
)


@given(_JSON)
def test_any_json_is_read(value: object) -> None:
    parse(json.dumps(value))
    parse(f"```json\n{json.dumps(value)}\n```")


@pytest.mark.parametrize("listed", ["{0}", "- {0}\n- docs/a.md", '["{0}", "docs/a.md"]'])
@pytest.mark.parametrize(
    "name", ["x/../../queue", "..", "x/../../../../metrics", "%2e%2e/rules", "x" * 257, "a\x1b[31mb", "a\u202eb"]
)
def test_what_is_no_name_of_anything_made_is_left_out(listed: str, name: str) -> None:
    """Each is asked for later, as a key."""
    shown = json.dumps(name)[1:-1] if listed.startswith("[") else name
    found = parse(REPORT.replace("docs/release.md, commit 4f2a", listed.replace("{0}", shown)))
    assert name not in found.artifacts
    assert set(found.artifacts) <= {"docs/a.md"}
    given = {"status": "1", "result": BODY, "artifacts": [name, "docs/a.md"], "confidence": 0.9}
    assert parse(json.dumps(given)).artifacts == ("docs/a.md",)
