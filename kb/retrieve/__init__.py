"""Retrieval: vector first, then hops through the graph, ranked by the sentences that were crossed.

I own: the search, the ranking (pure) and the evidence pack.
Who may call me: `kb.service.http`. I read both stores through their ports and write nothing.
"""
