"""Sources of TypeScript that its grammar does not know, beside what TypeScript's compiler says of them."""

from __future__ import annotations

import pytest

from kb.code import extraction

_SIGNATURES = """interface Factory {
  name: string
  /** One. */
  <T>(value: T): Factory
  // Two.
  (encoding?: string): Factory
  close(): void
}
const both = dual(
  2,
  <A, B extends Array<Map<A, B>>>(self: A, that: B): A => self
)
function after(): void {}
"""
_TEMPLATE = """const query = () => sql<{ id: number; name: string }>`SELECT ${id} FROM t`.pipe(1)
export interface Parameter {
  name: string
  in: "query" | "path"
  read(): void
}
"""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (_SIGNATURES, ["Factory", "Factory.close", "after"]),
        (_TEMPLATE, ["query", "Parameter", "Parameter.read"]),
    ],
)
def test_what_the_grammar_does_not_know_hides_no_declaration(source: str, names: list[str]) -> None:
    found = extraction.extract("a.ts", source.encode(), "typescript")
    assert [one.qname for one in found.symbols] == names
    assert not found.has_error
