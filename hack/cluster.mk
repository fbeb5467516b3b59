# The local Kubernetes, its data services and the project image; `hack/cluster` and `hack/image` do the work.
# KUBECONFIG=FILE uses that cluster and leaves the local one alone; IMAGE=NAME uses that image and builds none.
# JERVIS_CLUSTER_DIR and JERVIS_CLUSTER_NAME move and rename the local cluster; its directory is .cluster, or
# .cluster-NAME for another name.

CLUSTER_DIR := $(or $(JERVIS_CLUSTER_DIR),$(CURDIR)/.cluster$(patsubst %,-%,$(filter-out jervis,$(JERVIS_CLUSTER_NAME))))
CLUSTER_PYTHON := PYTHONPATH=$(CURDIR) $(PYTHON)
HELM := $(CLUSTER_DIR)/bin/helm
KUBECTL := $(CLUSTER_DIR)/bin/kubectl
KUBECONFORM := $(CLUSTER_DIR)/bin/kubeconform

.PHONY: cluster-up
cluster-up: ## Start the local cluster and the data services (or check the cluster of KUBECONFIG)
	@$(CLUSTER_PYTHON) -m hack.cluster up

.PHONY: cluster-down
cluster-down: ## Stop all of it and forget its content; images and built programs stay
	@$(CLUSTER_PYTHON) -m hack.cluster down

.PHONY: cluster-status
cluster-status: ## One line per process of the local cluster
	@$(CLUSTER_PYTHON) -m hack.cluster status

.PHONY: services-up
services-up: ## Start only the data services (MongoDB wire, Weaviate, Tika)
	@$(CLUSTER_PYTHON) -m hack.cluster services-up

.PHONY: services-down
services-down: ## Stop the data services; their data stays
	@$(CLUSTER_PYTHON) -m hack.cluster services-down

.PHONY: image
image: ## Build the project images and load them into the local cluster
	@$(CLUSTER_PYTHON) -m hack.image

# The tools know by the hash of their module when they are out of date.
.PHONY: mailserver
mailserver: ## Install or fetch Dovecot, Cyrus, Courier, GreenMail and espeak-ng for the tests of the sources
	@$(CLUSTER_PYTHON) -m hack.cluster mailserver

.PHONY: gitea
gitea: ## Build Gitea for the tests of the sources (minutes, once)
	@$(CLUSTER_PYTHON) -m hack.gitea >/dev/null

.PHONY: recorded
recorded: ## Fetch recorded answers of GitHub and GitLab for the tests of the sources
	@$(CLUSTER_PYTHON) -m hack.recorded >/dev/null

.PHONY: programs
programs: ## Install the Debian packages of all programs that the tests start
	@$(CLUSTER_PYTHON) -m hack.cluster programs

.PHONY: cluster-tools
cluster-tools: ## Build helm, kubectl, kubeconform and promtool into bin of the cluster's directory (minutes, once)
	@$(CLUSTER_PYTHON) -m hack.cluster tool helm kubectl kubeconform promtool >/dev/null

$(HELM) $(KUBECTL) $(KUBECONFORM):
	@$(CLUSTER_PYTHON) -m hack.cluster tool $(@F) >/dev/null
