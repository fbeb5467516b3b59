"""What is read out of a document before anything is stored: its draft, prompts, and what models answered.

I own: what a document is taken apart into (`draft`), what its kind says without a model (`typed`, `mail`, `fields`,
`base_node`), the prompts (`prompt`, `prompts/`) and the kept answers of models (`answers`). `qualifier/` orders the
phases, `tools/` has the atomic tools; the modules beside them know neither. Caller: `kb.ingest`, which stores. I never
write to a store of documents.

Source: seed 001 "Node Types", seed 003 (schemas and prompts).
"""
