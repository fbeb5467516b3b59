"""Hard rules."""
