"""One module per protocol: `(cursor) -> items | failures | next cursor`, see `controllers.sources.port`."""
