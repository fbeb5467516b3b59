"""Tests of kb.http."""
