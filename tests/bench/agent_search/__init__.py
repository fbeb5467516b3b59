"""Tests of bench.agent_search."""
