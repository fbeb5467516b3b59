"""Who may ask, and how often: bearer tokens bound to scopes, run tokens, and a rate per client.

I own: what a run token opens, the buckets, and the audit record; the file of tokens is `contracts.tokens.token_file`.
Pure. Who may call me: `kb.service.http.access`. Without a file every client that can reach the service may use it
without a token: then the NetworkPolicies of the chart are the wall. A run token that is shown bounds its request in
either case.
"""
