"""Effects of runs on the systems behind Connections: a mail, a comment, an issue, a page; once per key.

I own: the ledger, the tools and their arguments, the audit line of an effect, and the protocol that providers implement
(`effect_protocol`, `tools.Opens`). I import no provider; `sources.__main__` gives me theirs (`providers.table`).
Whether an effect needs a person's approval is decided before it is asked for here.
Source: docs/effects.md, docs/decisions/0112.
"""
