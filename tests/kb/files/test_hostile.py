"""What must not be opened is refused by its directory or its structure, before anything is inflated; and texts that are
made to keep a pattern busy are read in one pass: each of these took minutes, or hours, before."""

from __future__ import annotations

import tracemalloc

import pytest

from crds import errors as root
from kb import errors
from kb.extract import relation
from kb.files import image, inspection, sniff, tika
from tests.kb import scopes
from tests.kb.files import making


def refuse(body: bytes) -> root.Permanent:
    """What a file is refused with."""
    with pytest.raises((errors.TooLarge, errors.Invalid)) as caught:
        inspection.check(body, sniff.detect(body), inspection.Limits())
    return caught.value


def test_a_zip_bomb_costs_no_memory() -> None:
    bomb = making.zip_bomb(300)
    assert len(bomb) < 400_000
    tracemalloc.start()
    refused = refuse(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(refused, errors.TooLarge)
    assert peak < 4 << 20


def test_a_directory_that_would_fill_the_memory() -> None:
    entry = b"PK\x01\x02" + bytes(24) + (1).to_bytes(2, "little") + bytes(16) + b"x"
    count = 300_000
    end = b"PK\x05\x06" + bytes(8) + (count * len(entry)).to_bytes(4, "little") + bytes(4)
    body = b"PK\x03\x04" + entry * count + end + b"\0\0"
    for hostile in (
        body,
        body[:-2] + b"\2\0..",
        body[: -len(end) - 2] + b"PK\x06\x07" + bytes(16) + end[:12] + bytes(10),
    ):
        tracemalloc.start()
        refused = refuse(hostile)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert "directory of the archive" in refused.message
        assert peak < 1 << 20


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(making.zip_bomb(20), "times its size", id="a small bomb by its ratio"),
        pytest.param(making.claiming(2 << 30), "inflates to 21474", id="two gigabytes claimed"),
        pytest.param(
            making.docx("hello", **{"word__embeddings__a.zip": b"PK"}), "another archive", id="an archive within"
        ),
        pytest.param(
            making.docx("hello", **{f"word__media__{number}": b"" for number in range(5_000)}), "entries", id="entries"
        ),
    ],
)
def test_what_an_archive_must_not_hold(body: bytes, says: str) -> None:
    assert says in refuse(body).message


@pytest.mark.parametrize("depth", [6, 60, 400])
def test_mails_within_mails(depth: int) -> None:
    assert isinstance(refuse(making.mails_within_mails(depth)), errors.TooLarge)


def test_a_forwarded_mail_is_no_attack() -> None:
    body = making.mails_within_mails(3)
    inspection.check(body, sniff.detect(body), inspection.Limits())


def test_macros() -> None:
    refused = refuse(making.docx("hello", **{"word__vbaProject.bin": b"\xd0\xcf\x11\xe0"}))
    assert "macros" in refused.message
    assert refused.remedy


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"PK\x03\x04 torn", "damaged archive"),
        (making.archive({"a.txt": "no office"}), "no Office document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old binary form"),
        (b"\x7fELF\x02\x01\x01\0", "none of the types"),
        (b"   \n", "none of the types"),
    ],
)
def test_what_is_nothing_that_is_taken(body: bytes, says: str) -> None:
    with pytest.raises(errors.Invalid, match=says):
        sniff.detect(body)


def test_a_name_or_a_header_changes_nothing() -> None:
    assert sniff.detect(b"\xef\xbb\xbf<!DOCTYPE html><html></html>") is sniff.Type.HTML
    assert sniff.detect(b"Note: this is\nplain text.") is sniff.Type.TEXT
    assert sniff.detect(making.mail("hello")) is sniff.Type.EML


def test_an_image_is_measured_before_anybody_unpacks_it() -> None:
    assert image.check(making.png(20, 10)) == "image/png"
    assert image.check(b"GIF89a" + bytes([1, 0, 1, 0]) + bytes(20)) == "image/gif"
    assert image.check(b"\xff\xd8\xff\xc0\0\x11\x08\0\x10\0\x20" + bytes(20)) == "image/jpeg"
    with pytest.raises(errors.TooLarge, match="100000 x 100000"):
        image.check(making.png(100_000, 100_000))
    with pytest.raises(errors.Invalid, match="no image"):
        image.check(making.pdf("hello"))


def test_comments_before_a_page_that_is_none() -> None:
    assert sniff.detect(b"<!---->" * 500 + b"x") is sniff.Type.TEXT
    assert sniff.detect(b"<!-- a --> <!-- b -->\n<html>") is sniff.Type.HTML


def test_blanks_without_an_end_of_line() -> None:
    text = tika.squeezed("a" + " " * 2_000_000 + "b\n \t\n\n" + " " * 2_000_000 + "c")
    assert text.startswith("a  ")
    assert "b\n\n  " in text
    assert tika.squeezed("a\n \n" * 3) == "a\n\na\n\na"


@pytest.mark.parametrize("filler", [" ", "\t", "-", ">", "*", "a|", "a->", "a-["])
def test_lines_that_state_nothing(filler: str) -> None:
    line = filler * (4_000 // len(filler))
    assert relation.find(f"{line}x\nx{line}x|y", anchor="note::1", where=scopes.ACME) == []


def test_what_is_stated_is_still_read() -> None:
    [found] = relation.find('   - "jira:SHOP-1|BLOCKS|jira:SHOP-2"', anchor="note::1", where=scopes.ACME)
    assert (found.source, found.type, found.target) == ("jira::SHOP-1", "blocks", "jira::SHOP-2")
