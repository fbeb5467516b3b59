"""The sources process: it polls what Connections name and makes a PendingTask of every item, once.

What I own: the claims on Connections (`assignments`), the items (`items`), the poll of one Connection (`poller`), the
creation of tasks (`indexer`), and one module per protocol (`protocols`) behind one port (`port`). Several replicas
share the Connections by claims in MongoDB.

Who may call me: `python -m controllers.sources` composes me; the operator imports `assignments` alone, through which it
says what is to be polled and learns what became of it. It is the one writer of the status of Connections.

What I never do: write a status, take an error for an empty source, or move a cursor past what is not stored.

Source: blueprint "Connectors"; seed 000 "Continuous Indexers", "CentralPoller"; seed 001 "SourceUrn".
"""
