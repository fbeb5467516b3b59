"""Tests of kb.retrieve."""
