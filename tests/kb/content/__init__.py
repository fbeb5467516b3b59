"""Tests of kb.content."""
