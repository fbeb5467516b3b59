"""What codegraph reads out of source code, beside what the parsers of the languages themselves read."""
