# Targets of the demonstration; the Makefile of the checkout includes it and defines BIN, venv, cluster-up and image.

.PHONY: demo
demo: venv cluster-up image ## Mails, an issue and commits through a real Kubernetes (OLLAMA_URL=... for a real Ollama)
	@$(BIN)/python -m hack.demo up

.PHONY: demo-down
demo-down: venv ## Remove the demonstration and, when it is ours, the whole cluster
	@$(BIN)/python -m hack.demo down
	@$(BIN)/python -m hack.cluster down
