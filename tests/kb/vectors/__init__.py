"""Tests of kb.vectors."""
