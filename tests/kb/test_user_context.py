"""What is known about the user from chunks: facts are whole or left out."""

from __future__ import annotations

from kb.memory import user
from kb.vectors import model


def chunk(document: str, text: str, ordinal: int = 0, start: int = 0, kind: str = "general") -> model.Chunk:
    return model.Chunk(
        id=f"{document}-{ordinal}",
        document_id=document,
        source_urn=f"user-knowledge::{document}",
        kind=f"user_knowledge_{kind}",
        title=document,
        heading="",
        text=text,
        ordinal=ordinal,
        start=start,
        end=start + len(text),
        observed_at="",
        graph_refs=(),
    )


def test_a_fact_that_is_too_long_hides_no_other() -> None:
    found = [chunk("new", "n"), chunk("long", "x" * 13_000), chunk("old", "o", kind="team")]
    made = user.assemble(found)
    assert made.truncated
    assert made.categories == {"team": ["- **old**: o"], "general": ["- **new**: n"]}
    assert made.markdown == "### Team\n- **old**: o\n\n### General\n- **new**: n"


def test_the_bound_holds_with_many_facts() -> None:
    made = user.assemble([chunk(f"f{n:04}", "y" * 90) for n in range(200)])
    assert made.truncated
    lines = made.categories["general"]
    assert lines[0].startswith("- **f0000**")
    assert 12_000 - 103 < sum(map(len, lines)) <= 12_000


def test_the_last_fact_of_a_full_page_may_lack_chunks_and_is_left_out() -> None:
    found = [chunk("whole", "a"), chunk("part", "second half", ordinal=1, start=20)]
    assert user.assemble(found, truncated=True).categories == {"general": ["- **whole**: a"]}
    assert set(user.assemble(found).categories["general"]) == {"- **whole**: a", "- **part**: second half"}


def test_one_fact_that_fills_the_page_is_shown() -> None:
    made = user.assemble([chunk("only", "a")], truncated=True)
    assert (made.truncated, made.categories) == (True, {"general": ["- **only**: a"]})
