"""Tests of bench.connectors."""
