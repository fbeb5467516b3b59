"""Tests of cli.knowledge."""
