"""Tests of kb.ingest."""
