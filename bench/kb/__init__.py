"""Benchmarks of the knowledge base."""
