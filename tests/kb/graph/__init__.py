"""Tests of kb.graph."""
