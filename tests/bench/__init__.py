"""Tests of bench: what its figures rest on."""
