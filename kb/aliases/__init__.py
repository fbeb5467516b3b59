"""Aliases: the third stage of normalisation. One thing under two names is one node, where a person has said so.

I own: the registry `graph_entity_registry` (seed 001 "Alias resolution"), the rules of merging and un-merging, and the
renaming of what ingest has woven. Who may call me: `kb.ingest` resolves, `kb.service.http` merges.
I never merge on a likeness: a likeness is a candidate, and a person (or a tool that asks one) decides.
"""
