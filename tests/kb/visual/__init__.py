"""Tests of kb.visual."""
