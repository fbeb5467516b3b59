"""Several writing processes over one MongoDB, Weaviate and graph, killed at any moment: the end is as of one writer."""
