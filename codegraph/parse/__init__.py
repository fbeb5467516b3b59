"""The facts of one file: from bytes to declarations and imports, by a grammar, a query and a language."""
