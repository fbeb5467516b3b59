"""The sources process: it polls what Connections name and makes a PendingTask of every item, once.

What I own: in `core` the claims on Connections (`assignments`), the items (`items`), the poll of one Connection
(`poller`), the creation of tasks (`indexer`) and the port to providers (`port`); in `providers` a folder for each of
these, with what is read there and done there; `effects` and `ci` for runs, `oauth` for access tokens, `api` for all
that is asked by HTTP. Providers import the others and no other imports a provider: `__main__` puts them together.
Several replicas share the Connections by claims in MongoDB. README.md says how a provider is written.

Who may call me: `python -m sources` composes me; runs use `client`. The operator imports `core.assignments`, through
which it says what is to be polled and learns what became of it. It is the one writer of the status of Connections.

What I never do: write a status, take an error for an empty source, or move a cursor past what is not stored.

Source: blueprint "Connectors"; seed 000 "Continuous Indexers", "CentralPoller"; seed 001 "SourceUrn".
"""
