"""Who may ask, and how often: bearer tokens bound to scopes, and a rate per client.

I own: the file of tokens, the rule that a scope lies within a token's bounds, and the buckets. Pure but for the file.
Who may call me: `kb.http.access`. Without a file everybody who can reach the service may use it: then the
NetworkPolicies of the chart are the wall.
"""
