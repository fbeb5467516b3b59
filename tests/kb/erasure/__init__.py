"""Erasing a whole scope."""
