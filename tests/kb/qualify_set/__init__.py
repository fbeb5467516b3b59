"""The set of examples/qualify against the whole knowledge base."""
