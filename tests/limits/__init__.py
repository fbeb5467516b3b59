"""Costs as counts: what one task, one quiet minute, one live object may cost. The numbers stand in YAML beside this."""
