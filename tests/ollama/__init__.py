"""A real Ollama behind the router (`make test-ollama`), with models of random numbers: what it says is nonsense."""
