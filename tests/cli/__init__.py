"""Tests of `kubectl jervis`."""
