"""The Atlassian Document Format as text: every node and mark type, and documents that are none."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.sources.protocols import adf


def word(said: str, *marks: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, "marks": [one if isinstance(one, dict) else {"type": one} for one in marks]}


def node(kind: str, *content: Any, **attrs: Any) -> dict[str, Any]:
    found = [word(one) if isinstance(one, str) else one for one in content]
    return {"type": kind, "content": found, **({"attrs": attrs} if attrs else {})}


def para(*content: Any) -> dict[str, Any]:
    return node("paragraph", *content)


LINK = {"type": "link", "attrs": {"href": "https://a.example/x"}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (para("a ", word("b ", "strong"), word("c", "em", "strike"), word("d", "code")), "a **b** ~~*c*~~`d`"),
        (para(word("a", "underline", "subsup", "textColor", "backgroundColor", "annotation", "border")), "a"),
        (para(word("text", LINK)), "[text](https://a.example/x)"),
        (para(word("https://a.example/x", LINK)), "<https://a.example/x>"),
        (para("a", node("hardBreak"), "b"), "a\nb"),
        (node("heading", "Title", level=2), "## Title"),
        (
            node("bulletList", node("listItem", para("a"), node("bulletList", node("listItem", para("b"))))),
            "- a\n  - b",
        ),
        (node("orderedList", node("listItem", para("a")), node("listItem", para("b")), order=3), "3. a\n4. b"),
        (
            node(
                "taskList", node("taskItem", "a", state="DONE"), node("taskList", node("taskItem", "b", state="TODO")),
                node("blockTaskItem", para("c"), state="TODO"),
            ),
            "- [x] a\n  - [ ] b\n- [ ] c",
        ),
        (node("decisionList", node("decisionItem", "We do.")), "- Decision: We do."),
        (node("blockquote", para("a"), para("b")), "> a\n\n> b"),
        (node("codeBlock", "x = ```1```", language="python"), "````python\nx = ```1```\n````"),
        (node("panel", para("Careful."), panelType="warning"), "> Warning: Careful."),
        (node("rule"), "---"),
        (
            node(
                "table",
                node("tableRow", node("tableHeader", para("h")), node("tableHeader", para("i"))),
                node("tableRow", node("tableCell", para("a|b"), para("c")), node("tableCell", para("d"))),
            ),
            "| h | i |\n| --- | --- |\n| a\\|b / c | d |",
        ),
        (node("expand", para("inside"), title="More"), "**More**\n\ninside"),
        (node("nestedExpand", para("inside"), title="More"), "**More**\n\ninside"),
        (
            node("mediaSingle", node("media", alt="plan.png", id="1"), node("caption", "Plan")),
            "[attachment: plan.png]\nPlan",
        ),
        (node("mediaGroup", node("media", id="u-1"), node("media", id="u-2")), "[attachment: u-1]\n[attachment: u-2]"),
        (para("see ", node("mediaInline", id="u-3")), "see [attachment: u-3]"),
        (para(node("mention", text="@Jana", id="a1"), " and ", node("mention", id="a2")), "@Jana and @a2"),
        (para(node("emoji", shortName=":smile:")), ":smile:"),
        (para(node("date", timestamp="1764115200000")), "2025-11-26"),
        (para(node("date", timestamp="soon")), "soon"),
        (para(node("status", text="DONE", color="green")), "[DONE]"),
        (para(node("inlineCard", url="https://a.example/b")), "<https://a.example/b>"),
        (node("blockCard", url="https://a.example/b"), "<https://a.example/b>"),
        (node("embedCard", url="https://a.example/b"), "<https://a.example/b>"),
        (para(node("placeholder", text="Write here")), "[Write here]"),
        (node("layoutSection", node("layoutColumn", para("a")), node("layoutColumn", para("b"))), "a\n\nb"),
        (
            node("extension", extensionKey="chart", parameters={"macroParams": {"type": {"value": "pie"}}}),
            "[chart type=pie]",
        ),
        (node("bodiedExtension", para("body"), extensionKey="excerpt"), "[excerpt]\n\nbody"),
        (
            node(
                "multiBodiedExtension", node("extensionFrame", para("a")), node("extensionFrame", para("b")),
                extensionKey="tabs",
            ),
            "[tabs]\n\na\n\nb",
        ),
        (para("x ", node("inlineExtension", extensionKey="anchor", text="here")), "x [anchor here]"),
        (node("syncBlock", extensionKey="sync"), "[sync]"),
        (node("bodiedSyncBlock", para("b"), extensionKey="sync"), "[sync]\n\nb"),
        (node("newBlock", para("kept"), title="Its title"), "Its title\n\nkept"),
        (para("a ", node("newInline", "kept", text="too")), "a\n\ntoo\n\nkept"),
    ],
)  # fmt: skip
def test_every_node_has_a_form(given: dict[str, Any], said: str) -> None:
    assert adf.text(node("doc", given)) == said


def test_every_known_node_type_is_tested() -> None:
    [mark] = [one for one in test_every_node_has_a_form.pytestmark if one.name == "parametrize"]
    seen: set[str] = {"doc"}

    def walk(one: Any) -> None:
        seen.add(one["type"])
        for child in one.get("content", ()):
            walk(child)

    for given, _ in mark.args[1]:
        walk(given)
    assert set(adf._BLOCKS) | set(adf._INLINES) <= seen


def test_what_is_no_document_says_nothing_and_a_text_stays() -> None:
    given: list[Any] = [None, 3, [], {}, {"type": "doc", "content": [None, "x"]}]
    assert [adf.text(one) for one in given] == [""] * 5
    assert adf.text("h1. Wiki markup\r\nfrom a server ") == "h1. Wiki markup\nfrom a server"


def test_deep_and_long_documents_are_bounded_and_keep_their_words() -> None:
    deep: dict[str, Any] = para("at the bottom")
    for _ in range(5000):
        deep = node("blockquote", deep)
    assert "at the bottom" in adf.text(deep)
    long = adf.text(node("doc", para("x" * (adf.CHARS + 5))))
    assert long.endswith(adf.CUT)
    assert len(long) < adf.CHARS + 100
