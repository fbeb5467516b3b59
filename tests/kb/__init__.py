"""Tests of the knowledge base. Stores are tested by one contract suite per port; only language models are simulated."""
