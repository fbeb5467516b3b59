"""Tests of kb.upkeep."""
