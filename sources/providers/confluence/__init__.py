"""Confluence: each version of a page as an item, its storage format as text."""
