"""Tests of bench.qualify."""
