"""Tests of bench.kb."""
