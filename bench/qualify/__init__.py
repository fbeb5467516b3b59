"""What it costs to qualify a document: `python -m bench.qualify.cost`."""
