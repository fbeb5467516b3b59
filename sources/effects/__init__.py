"""Effects of runs on the systems behind Connections: a mail, a comment, an issue, a page; once per key.

I own: the ledger, the tools and their arguments, the audit line of an effect. Called by
`sources.__main__`. Whether an effect needs a person's approval is decided before it is asked for here.
Source: docs/effects.md, docs/decisions/0112.
"""
