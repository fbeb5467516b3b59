"""Documents of Atlassian as text: every node and mark type of the Atlassian Document Format; Confluence's storage
format with macros, links, tasks and tables; and what is no document, or no well-formed XML."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from sources.providers.atlassian import adf
from sources.providers.confluence import storage

# The Atlassian Document Format


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


# The storage format


def macro(name: str, body: str = "", **parameters: str) -> str:
    given = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    return f'<ac:structured-macro ac:name="{name}" ac:schema-version="1">{given}{body}</ac:structured-macro>'


def rich(body: str) -> str:
    return f"<ac:rich-text-body>{body}</ac:rich-text-body>"


def plain(body: str) -> str:
    return f"<ac:plain-text-body><![CDATA[{body}]]></ac:plain-text-body>"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("<h2>Title</h2><p>a <strong>b</strong>&nbsp;<em>c</em> &euro;</p>", "## Title\n\na **b**\xa0*c* €"),
        ("<ul><li>a<ul><li>b</li></ul></li></ul><ol><li>c</li></ol>", "- a\n  - b\n\n1. c"),
        (
            "<table><tbody><tr><th>h</th><th>i</th></tr><tr><td><p>a</p></td><td>b</td></tr></tbody></table>",
            "| h | i |\n| --- | --- |\n| a | b |",
        ),
        (macro("code", plain("if a > b && c:\n  <x>]]"), language="python"), "```python\nif a > b && c:\n  <x>]]\n```"),
        (macro("noformat", plain("as it is")), "```\nas it is\n```"),
        (macro("info", rich("<p>Know <b>this</b>.</p>"), title="Hint"), "> Info: Hint\n>\n> Know **this**."),
        (macro("expand", rich("<p>in</p>" + macro("warning", rich("<p>deep</p>"))), title="More"),
         "**More**\n\nin\n\n> Warning:\n>\n> deep"),
        ("<p>It is " + macro("status", title="DONE", colour="Green") + "</p>", "It is [DONE]"),
        ("<p>See " + macro("jira", key="JERV-7", server="Jira") + "</p>", "See JERV-7"),
        (macro("toc", maxLevel="3"), "[toc maxLevel=3]"),
        (macro("page-tree", rich("<p>kept</p>"), root="Home"), "[page-tree root=Home]\n\nkept"),
        (
            "<ac:task-list><ac:task><ac:task-id>1</ac:task-id><ac:task-status>complete</ac:task-status><ac:task-body>a"
            "</ac:task-body></ac:task><ac:task><ac:task-status>incomplete</ac:task-status><ac:task-body>b"
            "</ac:task-body></ac:task></ac:task-list>",
            "- [x] a\n- [ ] b",
        ),
        ('<p><ac:link><ri:user ri:account-id="acc-1" /></ac:link> said</p>', "@acc-1 said"),
        (
            '<p><ac:link ac:anchor="x"><ri:page ri:space-key="OPS" ri:content-title="Plan" />'
            "<ac:plain-text-link-body><![CDATA[the plan]]></ac:plain-text-link-body></ac:link></p>",
            "the plan [Plan#x]",
        ),
        ('<p><ac:link><ri:page ri:content-title="Plan" /></ac:link></p>', "[Plan]"),
        ('<p><ac:link><ri:attachment ri:filename="a.pdf" /></ac:link></p>', "[a.pdf]"),
        ('<p><a href="https://x.example/">x</a></p>', "[x](https://x.example/)"),
        ('<ac:image ac:width="9"><ri:attachment ri:filename="plan.png" /></ac:image>', "[attachment: plan.png]"),
        ('<p><ac:emoticon ac:name="tick" ac:emoji-fallback="✅" /> <ac:emoticon ac:name="smile" /></p>', "✅ :smile:"),
        ('<p>until <time datetime="2026-12-01" /></p>', "until 2026-12-01"),
        ("<p><ac:placeholder>Write</ac:placeholder></p>", "[Write]"),
        (
            '<ac:layout><ac:layout-section ac:type="two"><ac:layout-cell><p>a</p></ac:layout-cell><ac:layout-cell>'
            "<p>b</p></ac:layout-cell></ac:layout-section></ac:layout>",
            "a\n\nb",
        ),
        ('<p>a <ac:inline-comment-marker ac:ref="1">marked</ac:inline-comment-marker> b</p>', "a marked b"),
        (
            '<ac:adf-extension><ac:adf-node type="panel"><ac:adf-attribute>note</ac:adf-attribute></ac:adf-node>'
            "<ac:adf-fallback><p>shown</p></ac:adf-fallback></ac:adf-extension>",
            "shown",
        ),
        ("<p>broken <b>tags", "broken **tags**"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_body_is_markdown(given: str, said: str) -> None:
    assert storage.read(given).text == said


def test_what_it_refers_to() -> None:
    found = storage.read(
        '<p><ac:link><ri:page ri:space-key="OPS" ri:content-title="A" /></ac:link><ac:link><ri:page'
        f' ri:content-title="B" /></ac:link>{macro("jira", key="JERV-1")}{macro("jira", key="JERV-2")}'
        '<a href="https://h.example/wiki/spaces/OPS/pages/77/T">t</a></p>'
    )
    assert found.pages == [("OPS", "A"), ("", "B")]
    assert found.issues == ["JERV-1", "JERV-2"]
    assert found.addresses == ["https://h.example/wiki/spaces/OPS/pages/77/T"]


def test_deep_and_long_pages_are_bounded_and_keep_their_words() -> None:
    assert "at the bottom" in storage.read("<div>" * 5000 + "at the bottom" + "</div>" * 5000).text
    nested = "<ac:structured-macro ac:name='info'><ac:rich-text-body>" * 5000
    assert storage.read(f"{nested}at the bottom").text == "at the bottom"
    long = storage.read(f"<p>{'x' * (storage.CHARS + 5)}</p>").text
    assert long.endswith(storage.CUT)


HOSTILE = {
    "sections": "<![CDATA[", "comments": "<!--", "comments that end in a tag": "<!-- >", "declarations": "<![x>",
    "instructions": "<?x", "signs": "<", "signs of declarations": "<!", "tags": "<a ", "ends": "</a",
    "quotes": "<a b='>", "other quotes": '<a b="', "values": "<a b='' ", "references": "&#",
    "scripts": "<script></", "nested": "<ac:link>",
    "items": "<li>x</li>", "paragraphs": "<p>x", "cells": "<td>x</td>", "macros": '<ac:structured-macro ac:name="x"/>',
    "links": '<ac:link><ri:page ri:content-title="x"/></ac:link>', "unmatched": "<b></i>",
}  # fmt: skip


def _steps(body: str) -> int:
    """Calls of functions, C's among them, that one reading takes."""
    count = 0

    def note(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        storage.read(body)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("around", ["{}", "<ol>{}</ol>", '{}"'])
def test_twice_as_much_hostile_markup_takes_twice_as_many_steps(kind: str, around: str) -> None:
    one = HOSTILE[kind]
    once, twice = (_steps(around.format(one * (size // len(one)))) for size in (1 << 13, 1 << 14))
    assert twice <= 2.5 * once + 1000


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_parser_gets_whole_tags_alone(kind: str) -> None:
    """It looks for the end of everything else to the end of the text, from each beginning."""
    seen = storage._plain(HOSTILE[kind] * 50 + "<p>and &lt;this&gt; stays</p>" + " " * 100_000)
    assert re.sub(r"</?[A-Za-z][^<>]*>", "", seen).count("<") == 0
    assert len(seen) < 10_000
    assert "and &lt;this&gt; stays" in seen


def test_a_mebibyte_of_hostile_markup_is_read() -> None:
    for one in HOSTILE.values():
        storage._plain(one * ((1 << 20) // len(one)))


def test_what_looks_like_markup_keeps_its_words() -> None:
    body = "<p title=\"it's\">1 < 2 <b>and</b> <!-- not this --><a href='https://x.example/?a>b'>3 > 2</a> <3</p>"
    found = storage.read(body)
    assert found.text == "1 < 2 **and** [3 > 2](https://x.example/?a>b) <3"
    assert storage.read("<ac:plain-text-body><![CDATA[<!-- kept -->]]></ac:plain-text-body>").text.count("kept") == 1
    numbered = storage.read('<ol start="7"><li>a<p>b</p></li><li>c</li></ol>').text
    assert numbered.startswith("7. a")
    assert "\n8. c" in numbered
