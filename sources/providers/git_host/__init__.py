"""What Git hosts have in common: issues and requests to merge as items, and the effects on them."""
