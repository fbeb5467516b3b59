"""Tests of kb.service.http."""
