"""Links of documents."""
