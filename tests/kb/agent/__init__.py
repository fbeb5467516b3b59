"""Tests of kb.agent."""
