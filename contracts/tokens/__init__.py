"""Tokens between processes: the run token and its keys, files of tokens, reviews by the apiserver, live runs."""
