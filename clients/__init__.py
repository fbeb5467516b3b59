"""What goes out to other servers, each way once.

`clients.http`: bounded HTTP to servers of others. `clients.kb_transport`: calls of the service that has the knowledge
base and the code graph.
"""
