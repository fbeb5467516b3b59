"""One-time and state-changing links are told from ordinary pages, however they are written."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.extract import links_in_text
from kb.links import onetime
from tests.kb.links import mailed
from tests.kb.links.shapes import ONE_TIME, ORDINARY


def test_there_are_enough_shapes() -> None:
    assert len(set(ONE_TIME)) >= 100
    assert len(set(ORDINARY)) >= 60


@pytest.mark.parametrize("url", ONE_TIME)
def test_one_time(url: str) -> None:
    assert judged(url)


@pytest.mark.parametrize("url", ORDINARY)
def test_ordinary(url: str) -> None:
    assert judged(url) == ""


def judged(url: str, text: str = "") -> str:
    """Why the link is not opened, whose text this is."""
    normal = links_in_text.normalise(url)
    assert normal is not None
    return onetime.reason(normal, "", text)


@pytest.mark.parametrize(
    ("which", "blocked", "harmless"),
    [("SEEN", 89, 0), ("HELD_OUT", 73, 1)],
)
def test_how_many_of_the_links_in_mails_are_known(which: str, blocked: int, harmless: int) -> None:
    """Of 91 that act how many at least, and of 85 and 84 harmless ones how many at most are not opened."""
    acting, others = getattr(mailed, which)
    assert (len(acting), len(others) >= 84) == (91, True)
    assert sum(bool(judged(*one)) for one in acting) >= blocked
    assert [one for one in others if judged(*one)][harmless:] == []


@given(st.sampled_from(mailed.ACTING), st.sampled_from(["&utm_source=mail", "&lang=cs", "&v=2"]), st.data())
def test_a_link_of_a_mail_stays_one_with_a_parameter_more_and_within_another(
    link: tuple[str, str], more: str, data: st.DataObject
) -> None:
    url, text = link
    if not judged(url, text) or "#" in url:
        return
    assert judged(url + (more if "?" in url else f"?{more[1:]}"), text)
    if not text:
        encoded = quote(url, safe="")
        assert judged(f"https://a.example/{data.draw(st.sampled_from(['go', 'out', 'link']))}?next={encoded}")


@given(st.sampled_from(ONE_TIME), st.data())
def test_another_spelling_is_the_same_link(url: str, data: st.DataObject) -> None:
    """Letters of a path's words in another case or percent-encoded, and a parameter more; not those of its tokens."""
    parts = urlsplit(url)

    def spelt(segment: str) -> str:
        if not segment.isascii() or not segment.replace("-", "").replace("_", "").islower():
            return segment
        forms = (data.draw(st.sampled_from([one, one.upper(), f"%{ord(one):02X}"])) for one in segment)
        return "".join(forms)

    path = "/".join(map(spelt, parts.path.split("/")))
    query = f"{parts.query}&utm_source=mail" if "=" in parts.query else parts.query
    spelling = parts._replace(path=path, query=query).geturl()
    assert judged(spelling), spelling


@given(st.sampled_from(ONE_TIME))
def test_a_link_within_a_link_counts(url: str) -> None:
    assert onetime.reason(f"https://a.example/go?next={quote(url, safe='')}")
    assert onetime.reason(f"https://a.example/go?next={quote(quote(url, safe=''), safe='')}")


@pytest.mark.parametrize(
    ("before", "after", "blocked"),
    [
        ("If you want no more mails:", "", False),
        ("To be removed, unsubscribe here:", "", True),
        ("Odhlásit odběr:", "", True),
        ("Newsletter abbestellen", "", True),
        ("", "Unsubscribe | Privacy", True),
        ("", "Confirm your e-mail within 24 hours", True),
        ("", "Passwort zurücksetzen", True),
        ("", "Potvrdit registraci", True),
        ("", "the page about unsubscribing", False),
        ("The plan is at", "Please confirm that you have read it.", False),
        ("", "Approve", True),
        ("", "Jetzt bestätigen", True),
        ("", "Schválit Zamítnout", True),
        ("Bitte die Anmeldung prüfen und bestätigen:", "", False),
        ("", "Ablehnung des Antrags", False),
        ("", "How to approve a pull request", False),
    ],
)
def test_the_label_of_a_link_counts(before: str, after: str, blocked: bool) -> None:
    assert bool(onetime.reason("https://a.example/x9", before, after)) is blocked


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_judged(path: str, before: str, after: str) -> None:
    normal = links_in_text.normalise(f"https://a.example/{path}")
    if normal is not None:
        assert isinstance(onetime.reason(normal, before, after), str)
