"""A real server with the API of OpenAI behind the router (`make test-llama-cpp`): what its random model says is nonsense."""
