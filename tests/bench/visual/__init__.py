"""Tests of bench.visual."""
