"""Tests of controllers.sources."""
