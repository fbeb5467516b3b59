"""The HTTP face: routes, bodies, errors, readiness, the OpenAPI document.

I own: what a request looks like on the wire and which status an error becomes.
Who may call me: `kb.__main__`, which gives me everything that I call. I decide nothing about knowledge.
"""
