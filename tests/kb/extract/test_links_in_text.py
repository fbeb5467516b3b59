"""Links are found where people write them, in one spelling, with what stands around them."""

from __future__ import annotations

import string
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.extract import links_in_text


def urls(text: str, most: int = 20) -> list[str]:
    return [one.url for one in links_in_text.find(text, most=most)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://a.example/b.", ["https://a.example/b"]),
        ("(see https://a.example/b)", ["https://a.example/b"]),
        (
            "https://en.wikipedia.org/wiki/Lock_(computer_science), again",
            ["https://en.wikipedia.org/wiki/Lock_(computer_science)"],
        ),
        ("(https://a.example/x_(y))!", ["https://a.example/x_(y)"]),
        ("<https://a.example/b?c=d&e=f>", ["https://a.example/b?c=d&e=f"]),
        ('"https://a.example/b"', ["https://a.example/b"]),
        ("„https://a.example/b“", ["https://a.example/b"]),
        ("[the page](https://a.example/b) and more", ["https://a.example/b"]),
        ('[the page](https://a.example/b "Title")', ["https://a.example/b"]),
        ("[https://bank.example](https://other.example/x)", ["https://bank.example/", "https://other.example/x"]),
        ("**https://a.example/b**", ["https://a.example/b"]),
        (
            "[text|https://a.example/b] and [https://a.example/c|smart-link]",
            ["https://a.example/b", "https://a.example/c"],
        ),
        ("HTTPS://A.Example:443/B#top", ["https://a.example/B"]),
        ("http://a.example:80", ["http://a.example/"]),
        ("http://a.example:8080/x", ["http://a.example:8080/x"]),
        ("https://a.example/%C3%a9?q=%20", ["https://a.example/%C3%a9?q=%20"]),
        ("https://a.example/é", ["https://a.example/%C3%A9"]),
        ("https://žluť.example/kůň", ["https://xn--lu-yta1h.example/k%C5%AF%C5%88"]),
        ("https://[2001:DB8::0001]/x", ["https://[2001:db8::1]/x"]),
        ("https://a.example/b\u200bhidden", ["https://a.example/b"]),
        ("https://a.example/b; https://a.example/b#x", ["https://a.example/b"]),
        ("Fix the race (#12)\n\nRefs: https://a.example/issues/12\n", ["https://a.example/issues/12"]),
        ("https://user:secret@a.example/ ftp://a.example/ mailto:x@a.example javascript:x www.a.example", []),
        ("https:// http://. https://:443/ https://a..b/ https://a.example:99999/", []),
        ("xhttps://a.example/b view-source:https://a.example/c", ["https://a.example/c"]),
    ],
)
def test_as_people_write_them(text: str, expected: list[str]) -> None:
    assert urls(text) == expected


def test_html_shows_links_and_their_surroundings_and_nothing_that_is_hidden() -> None:
    text = """<html><head><style>a{background:url(https://css.example/x)}</style></head><body>
      <p>Please read the <a href="https://a.example/plan?x=1&amp;y=2#part">migration   plan</a> by Friday.</p>
      <img src="https://pixel.example/open.gif"><script>fetch("https://script.example/")</script>
      <noscript><a href="https://noscript.example/">x</a></noscript>
      <!-- https://comment.example/ --> Plain: https://b.example/text. <a href="/relative">r</a>
      <a rel="nofollow" href="https://c.example/">c</a></body></html>"""
    found = links_in_text.find(text, most=20)
    assert [one.url for one in found] == [
        "https://a.example/plan?x=1&y=2",
        "https://b.example/text",
        "https://c.example/",
    ]
    assert found[0].before == "Please read the"
    assert found[0].after.startswith("migration plan by Friday.")


def test_a_mail_is_decoded_and_its_files_are_left_out() -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "jana@acme.example", "Plan"
    mail.set_content("Plán: https://a.example/" + "x" * 90 + " konec", cte="quoted-printable")
    mail.add_alternative('<p>Plan: <a href="https://b.example/y">here</a></p>', subtype="html", cte="base64")
    mail.add_attachment("https://file.example/", filename="notes.txt")
    assert urls(mail.as_string()) == ["https://a.example/" + "x" * 90, "https://b.example/y"]
    assert urls("From: jana@acme.example\nSubject: Plan\n\nSee https://a.example/b") == ["https://a.example/b"]


def test_a_text_that_begins_like_a_header_is_read_whole() -> None:
    assert urls("Note: https://a.example/a\n\nhttps://a.example/b") == ["https://a.example/a", "https://a.example/b"]
    assert urls("https://a.example/a\n\nhttps://a.example/b") == ["https://a.example/a", "https://a.example/b"]


def test_the_first_occurrence_wins_and_the_number_is_bounded() -> None:
    text = "one https://a.example/1 two https://a.example/1#again " + " ".join(
        f"https://a.example/{number}" for number in range(2, 40)
    )
    found = links_in_text.find(text, most=5)
    assert [one.url.rpartition("/")[2] for one in found] == ["1", "2", "3", "4", "5"]
    assert (found[0].before, found[0].after[:3]) == ("one", "two")
    assert links_in_text.find(text, most=0) == []


@given(st.text(max_size=300), st.sampled_from(["", "<p>", "From: a@b.c\n\n"]), st.text(max_size=300))
def test_whatever_is_around_is_bounded(before: str, kind: str, after: str) -> None:
    for one in links_in_text.find(f"{kind}{before} https://a.example/b {after * 3}", most=20):
        assert len(one.before) <= links_in_text.CONTEXT_CHARS
        assert len(one.after) <= links_in_text.CONTEXT_CHARS
        assert links_in_text.normalise(one.url) == one.url
        assert len(one.url) <= links_in_text.URL_CHARS


_PATHS = st.text(string.ascii_letters + string.digits + "/-_%.~!$&'*+,;=:@", max_size=60)


@given(st.sampled_from(["http", "https", "HTTPS"]), _PATHS, st.text(max_size=20))
def test_a_spelling_is_its_own_spelling(scheme: str, path: str, fragment: str) -> None:
    made = links_in_text.normalise(f"{scheme}://A.example/{path}#{fragment}")
    assert made is not None
    assert links_in_text.normalise(made) == made
    assert "#" not in made


@given(
    st.text(string.ascii_letters + string.digits + "/-_", min_size=1, max_size=40),
    st.sampled_from(
        ["{}.", "({})", "[{}]", "<{}>", '"{}"', "**{}**", "[x]({})", "[x]({}).", "{},", "«{}»", "({}),", "{}…"]
    ),
)
def test_the_sentence_around_is_not_of_the_url(path: str, around: str) -> None:
    url = f"https://a.example/{path}"
    assert urls("Read " + around.format(url) + " today") == [url]


HOSTILE = {
    "brackets": "https://](" * 20_000,
    "opened": "https://a.example/" + "(" * 200_000,
    "dots": ("https://a" + "." * 50) * 20_000,
    "anchors": "<a href=https://a.example/b>x</a>" * 10_000,
    "markup": "<p>" + "<!--" * 200_000 + "https://a.example/x",
    "punycode": "From: x\nContent-Type: text/plain; charset=punycode\nContent-Transfer-Encoding: base64\n\n"
    + "YWFh" * 100_000,
    "headers": "From: " * 50_000,
    "parameters": "From: x\nContent-Type: text/plain; " + "a=b; " * 50_000 + "\n\nhttps://a.example/x",
    "comments": "From: x\nContent-Type: multipart/mixed; boundary=" + "(" * 50_000 + "\n\nhttps://a.example/x",
    "nested": "From: x\n"
    + "".join(f"Content-Type: multipart/mixed; boundary=b{one}\n\n--b{one}\n" for one in range(3000)),
    "parts": "From: x\nContent-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nhttps://a.example/x\n" * 10_000,
    "charset": "From: x\nContent-Type: text/plain; charset=none\nContent-Transfer-Encoding: base64\n\n////",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_cost_no_more_than_their_length(name: str) -> None:
    """With time that grows with the square of these lengths each of them takes minutes."""
    assert len(links_in_text.find(HOSTILE[name], most=20)) <= 20


def test_what_the_list_unsubscribe_header_names_is_no_link_of_the_mail() -> None:
    mail = (
        "From: news@lists.example\nList-Unsubscribe: <mailto:u@lists.example?subject=x>,\n"
        " <https://lists.example/q/8f7e?r=1>\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\n\n"
        "The notes: https://lists.example/notes and https://lists.example/q/8f7e?r=2 and https://lists.example/q/9\n"
    )
    assert [one.url for one in links_in_text.find(mail, most=9)] == [
        "https://lists.example/notes",
        "https://lists.example/q/9",
    ]
    # A text with such a line is no mail.
    told = "It has this header:\nList-Unsubscribe: <https://lists.example/notes>\n"
    assert [one.url for one in links_in_text.find(told, most=9)] == ["https://lists.example/notes"]
