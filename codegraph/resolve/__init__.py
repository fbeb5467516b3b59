"""What leads from file to file of a project, by its facts alone: calls, imports, bases, qualified names. Pure."""
