"""Tests of the operator's decisions: pure parts alone, the rest against a real apiserver (tests/operator)."""
