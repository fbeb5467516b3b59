"""Lines of a hard rule that begin with `enforce:`: `enforce_lines` reads them all, the others each a kind."""
