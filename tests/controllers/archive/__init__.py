"""The archive of finished tasks: its decisions, its parameters, its documents."""
