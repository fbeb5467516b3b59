# Targets of the demonstration; the Makefile of the checkout includes it and defines BIN, venv and CLUSTER_PYTHON.

.PHONY: demo
demo: ## Mails, issues and commits through a real Kubernetes, also from a Dovecot and a Gitea (MODEL=small: small real models; OLLAMA_URL=...: your Ollama)
	@$(CLUSTER_PYTHON) -m hack.demo.prepare
	@$(BIN)/python -m hack.demo up

.PHONY: demo-down
demo-down: venv ## Remove the demonstration and, when it is ours, the whole cluster
	@$(BIN)/python -m hack.demo down
	@$(BIN)/python -m hack.cluster down
