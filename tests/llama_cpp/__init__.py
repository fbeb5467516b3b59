"""A real server with OpenAI's API behind the router (`make test-llama-cpp`), with a model of random numbers."""
