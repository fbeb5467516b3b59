"""`jervis-kb`: a folder into the knowledge base, a question to it. Enters by `kb.client` only."""
