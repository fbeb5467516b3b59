"""Tests of bench.codegraph."""
