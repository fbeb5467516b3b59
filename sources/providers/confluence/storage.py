"""Confluence's storage format (XHTML with macros) as Markdown. Pure.

Macros become HTML that says the same, then markdownify writes it. Of a macro that is not known its name, its
parameters and its body stay. A page that is nested too deeply keeps its words. Source: confluence.atlassian.com
"Confluence Storage Format".
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import markdownify
from bs4 import BeautifulSoup
from bs4.element import Tag

CHARS = 1 << 20
CUT = "[The text is longer; the rest is left out.]"
_CDATA, _COMMENT = ("<![CDATA[", "]]>"), ("<!--", "-->")
_DECLARED = re.compile(r"<[!?][^<>]*>")
_UNCLOSED = re.compile(r"""<(?!/?[A-Za-z](?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>)""")
_BLANKS = re.compile(r"[^\S\n]{201,}")
DEPTH, NESTED = 50, 200
"""Macros, and elements of Confluence, inside of one another; a page with more keeps its words alone."""
_NESTING = re.compile(r"<(/?)ac:(structured-macro\b)?[^<>]*>")
_MARKUP = re.compile(r"<[^>]*>")
_NOTES = frozenset({"info", "note", "tip", "warning", "panel", "success", "error"})
_CODES = frozenset({"code", "noformat"})


@dataclass
class Page:
    """`pages` are (space or "", title) that it links to, `issues` keys in Jira macros, `addresses` what it links to."""

    text: str = ""
    pages: list[tuple[str, str]] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)


def read(body: str) -> Page:
    """The text of a body, and what it refers to."""
    found = Page()
    whole = _plain(body)
    try:
        if _nested(whole):
            raise RecursionError
        soup = BeautifulSoup(whole, "html.parser")
        for one in reversed(soup.find_all(_is_macro)):
            _replace(soup, one, found)
        found.addresses = [str(one["href"]) for one in soup.find_all("a", href=True)]
        _number(soup)
        text = _Markdown(
            heading_style="ATX", bullets="-", escape_asterisks=False, escape_underscores=False,
            code_language_callback=lambda one: one.get("data-language") or "",
        ).convert_soup(soup)  # fmt: skip
    except RecursionError:
        text = html.unescape(_MARKUP.sub(" ", whole))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()
    found.text = text if len(text) <= CHARS else f"{text[:CHARS].rstrip()}\n\n{CUT}"
    found.pages.reverse()
    found.issues.reverse()
    return found


class _Markdown(markdownify.MarkdownConverter):
    """Items of ordered lists have their numbers (`_number`): markdownify counts those before each of them."""

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """An item of a list."""
        number = el.get("data-number")
        if number is None or not (text or "").strip():
            return str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]  # not in its stubs
        first, *rest = text.strip().split("\n")
        bullet = f"{number}. "
        return "\n".join([bullet + first, *(" " * len(bullet) + line if line else "" for line in rest)]) + "\n"


def _number(soup: BeautifulSoup) -> None:
    for listed in soup.find_all("ol"):
        said = str(listed.get("start") or "")
        start = int(said) if said.isdecimal() and len(said) < 10 else 1
        for number, one in enumerate(listed.find_all("li", recursive=False), start):
            one["data-number"] = str(number)


def _plain(body: str) -> str:
    """Without sections, comments and declarations, with every `<` escaped that begins no whole tag. The parser looks
    for the end of each of these anew, to the end of the text: of many that have none it would take hours."""
    text = _sections(body, *_CDATA, html.escape)
    text = _sections(text, *_COMMENT, lambda _: "")
    # Of many blanks in a row, too, markdownify looks for the end anew from each of them.
    return _BLANKS.sub(" " * 200, _UNCLOSED.sub("&lt;", _DECLARED.sub("", text)))


def _sections(text: str, begin: str, end: str, made: Callable[[str], str]) -> str:
    """With what stands between the two marks replaced; a section without an end stays."""
    parts, at = list[str](), 0
    while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start + len(begin))) >= 0:
        parts += [text[at:start], made(text[start + len(begin) : stop])]
        at = stop + len(end)
    return "".join((*parts, text[at:]))


def _nested(text: str) -> bool:
    """Whether too many macros, or elements of Confluence, are inside of one another."""
    macros = elements = 0
    for one in _NESTING.finditer(text):
        if one[0].endswith("/>"):
            continue
        step = -1 if one[1] else 1
        elements = max(elements + step, 0)
        macros = max(macros + step, 0) if one[2] else macros
        if macros > DEPTH or elements > NESTED:
            return True
    return False


def _is_macro(one: Tag) -> bool:
    return one.name.startswith("ac:") or one.name == "time"


def _parameters(one: Tag) -> dict[str, str]:
    return {
        str(each.get("ac:name", "")): each.get_text(" ", strip=True)
        for each in one.find_all("ac:parameter", recursive=False)
    }


def _made(soup: BeautifulSoup, name: str, *content: Tag | str, **attributes: str) -> Tag:
    made = soup.new_tag(name, attrs=dict(attributes))
    for each in content:
        made.append(each)
    return made


def _body(one: Tag) -> list[Tag | str]:
    """What is inside of the bodies; the inner macros are replaced already."""
    found: list[Tag | str] = []
    for each in one.find_all(["div", "pre"], attrs={"data-body": True}, recursive=False):
        found.append(each.extract())
    return found


def _put(one: Tag, made: Tag | str, name: str = "") -> None:
    """In its place: to replace an element takes a time that grows with its siblings."""
    one.clear()
    one.attrs = {}
    one.name = name or ("div" if isinstance(made, Tag) and made.name != "a" else "span")
    one.append(made)


def _replace(soup: BeautifulSoup, one: Tag, found: Page) -> None:
    """Inner macros come first."""
    match one.name:
        case "ac:structured-macro" | "ac:macro":
            _put(one, _macro(soup, one, found))
        case "ac:rich-text-body" | "ac:adf-fallback" | "ac:adf-content":
            one.name = "div"
            one["data-body"] = "rich"
        case "ac:plain-text-body":
            _put(one, one.get_text(), "pre")
            one["data-body"] = "plain"
        case "ac:task-list":
            one.name = "ul"
        case "ac:task":
            done = one.find("ac:task-status", recursive=False)
            body = one.find("ac:task-body", recursive=False)
            mark = "[x] " if done is not None and done.get_text(strip=True) == "complete" else "[ ] "
            inside = list(body.contents) if body is not None else []
            _put(one, mark, "li")
            one.extend(inside)
        case "ac:link":
            _put(one, _link(soup, one, found))
        case "ac:image":
            _put(one, f"[attachment: {_target(one) or one.get('ac:alt') or 'image'}]")
        case "ac:emoticon":
            _put(one, str(one.get("ac:emoji-fallback") or f":{one.get('ac:name', 'emoticon')}:"))
        case "ac:placeholder":
            _put(one, f"[{one.get_text(' ', strip=True)}]")
        case "ac:adf-extension":
            bodies = _body(one)
            _put(one, _made(soup, "div", *(bodies or [one.get_text(" ", strip=True)])))
        case "time":
            _put(one, str(one.get("datetime") or one.get_text()))
        case _:
            return  # layouts, markers of comments, parts of the above: their content stays


def _target(one: Tag) -> str:
    for each in one.find_all(re.compile("^ri:")):
        for name in ("ri:filename", "ri:value", "ri:content-title", "ri:account-id", "ri:userkey", "ri:username"):
            if each.get(name):
                return str(each[name])
    return ""


def _link(soup: BeautifulSoup, one: Tag, found: Page) -> Tag | str:
    target = _target(one)
    inner = one.find(["ac:link-body", "ac:plain-text-link-body"])
    said = inner.get_text(" ", strip=True) if inner is not None else ""
    page = one.find(["ri:page", "ri:blog-post"])
    if page is not None and target:
        found.pages.append((str(page.get("ri:space-key") or ""), target))
    if one.find("ri:user") is not None:
        return f"@{said or target}"
    if one.find("ri:url") is not None:
        return _made(soup, "a", said or target, href=target)
    anchor = f"#{one['ac:anchor']}" if one.get("ac:anchor") else ""
    named = f"{target}{anchor}"
    return f"{said} [{named}]" if said and said != named and named else f"[{said or named}]"


def _macro(soup: BeautifulSoup, one: Tag, found: Page) -> Tag | str:
    name, parameters = str(one.get("ac:name", "macro")), _parameters(one)
    title, bodies = parameters.get("title", ""), _body(one)
    if name in _CODES:
        code = "\n".join(each if isinstance(each, str) else each.get_text() for each in bodies)
        made = _made(soup, "pre", code, **{"data-language": parameters.get("language", "")})
        return _made(soup, "div", _made(soup, "p", _made(soup, "b", title)), made) if title else made
    if name in _NOTES:
        head = f"{name.capitalize()}: {title}".strip()
        return _made(soup, "blockquote", _made(soup, "p", head), *bodies)
    if name == "expand":
        return _made(soup, "div", _made(soup, "p", _made(soup, "b", title or "Expand")), *bodies)
    if name == "status":
        return f"[{title or parameters.get('colour', '')}]"
    if name == "jira" and parameters.get("key"):
        found.issues.append(parameters["key"])
        return parameters["key"]
    linked = _target(one)
    given = [f"{key}={value}" for key, value in parameters.items() if value]
    said = f"[{' '.join([name, *given, *([linked] if linked and linked not in ' '.join(given) else [])])}]"
    return _made(soup, "div", _made(soup, "p", said), *bodies) if bodies else said
