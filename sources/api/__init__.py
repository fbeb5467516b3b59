"""The HTTP API of the sources process: what runs and other services ask of Connections.

I own: routes and their OpenAPI document, who may call which, errors as answers. Called by
`sources.__main__` alone; the work behind a route is a module's beside this package, which gives (Route,
handler) pairs to `app.build`. The probes and the metrics are on a port of their own.
"""
