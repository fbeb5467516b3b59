"""The delegation graph: its parts, its loops against a MongoDB wire and the simulator, whole runs that are killed."""
