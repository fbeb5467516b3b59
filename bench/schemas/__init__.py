"""What the schemas that are sent to models cost in engines: `python -m bench.schemas`."""
