# The one entry point. `make help` lists what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV := .venv
STAMP := $(VENV)/.installed
KAFKA := .cache/kafka-4.3.1
JARS := $(KAFKA)/.complete
NEED := PYTHON=$(PYTHON) broker-image/tests/support/need.sh
PYTEST := cd broker-image && ../$(VENV)/bin/python -m pytest -q

# What lies outside of the project has its rules all the same.
RUFF_OUTSIDE := --config broker-image/pyproject.toml conftest.py tests

CHECKS := lint types layers tidy
TESTS := unit wire scenarios sim clients compat

# Build dependencies are pinned, too: pip takes this one also inside its build environment.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help dev up test $(CHECKS) $(TESTS) fuzz kill bench bench-quick verify ci kafka-jars clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): broker-image/pyproject.toml constraints.txt
	@$(NEED) venv
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q -e 'broker-image[dev]'
	@touch $@

$(JARS): broker-image/tests/support/pom.xml
	@$(NEED) java mvn
	@rm -rf $(KAFKA) && mkdir -p $(KAFKA)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA)/libs
	@touch $@

dev: $(STAMP) ## A virtual environment with pykraft and all tools, in .venv
	@echo "ready: source $(VENV)/bin/activate"

up: $(STAMP) ## Start a cluster on 127.0.0.1:9092; Ctrl-C stops it
	$(VENV)/bin/pykraft up -f manifests/examples/quickstart.yaml

test: ## All checks and tests, under ten minutes on two cores
	@$(NEED) venv java mvn kcat
	@.ci/stages dev $(CHECKS) kafka-jars $(TESTS)

lint: $(STAMP) ## Formatting and ruff's rules
	cd broker-image && ../$(VENV)/bin/ruff format --check -q . && ../$(VENV)/bin/ruff check -q .
	$(VENV)/bin/ruff format --check -q $(RUFF_OUTSIDE) && $(VENV)/bin/ruff check -q $(RUFF_OUTSIDE)
	@for script in .ci/* broker-image/tests/support/*.sh; do bash -n "$$script"; done

types: $(STAMP) ## mypy --strict
	cd broker-image && ../$(VENV)/bin/mypy

layers: $(STAMP) ## Imports point downward only; the core does no I/O
	cd broker-image && ../$(VENV)/bin/lint-imports --no-cache

tidy: $(STAMP) ## Layout, sizes, banned words, documents that must match the code
	$(PYTEST) tests/tidy

unit: $(STAMP) ## Milliseconds each, one module at a time
	$(PYTEST) tests/unit

wire: $(STAMP) ## Golden bytes, byte-by-byte feeding, Hypothesis, forged input
	$(PYTEST) tests/wire

scenarios: $(STAMP) ## Scripts in the protocol's own words
	$(PYTEST) tests/scenarios

sim: $(STAMP) ## Seeded simulation with crashes and torn writes
	$(PYTEST) tests/sim

clients: $(STAMP) $(JARS) ## Real clients and Apache's tools against a real process
	@$(NEED) java kcat
	$(PYTEST) tests/clients

compat: $(STAMP) $(JARS) ## Apache Kafka on our files, and we on its
	@$(NEED) java
	$(PYTEST) tests/compat

fuzz: $(STAMP) ## Forged input again and again, each round from a new seed: ROUNDS=20 FUZZ_SECONDS=60
	@for round in $$(seq $${ROUNDS:-20}); do seed=$$RANDOM; echo "round $$round, seed $$seed"; \
	    (export FUZZ_SEED=$$seed FUZZ_SECONDS=$${FUZZ_SECONDS:-60}; \
	    $(PYTEST) tests/wire tests/clients/test_fuzz_node.py -k fuzz --hypothesis-seed=$$seed); done

kill: $(STAMP) $(JARS) ## SIGKILL at random times, 50 times: nothing acknowledged is lost
	KILLS=$${KILLS:-50}; export KILLS; $(PYTEST) tests/clients/test_kill.py --timeout=1800

bench: $(STAMP) $(JARS) ## Side by side with Apache Kafka; writes tests/bench/RESULTS.md
	@$(NEED) java
	$(VENV)/bin/python tests/bench/run.py --save

bench-quick: $(STAMP) $(JARS) ## The bench in about a minute, so that it cannot rot
	@$(NEED) java
	$(VENV)/bin/python tests/bench/run.py --quick

verify: $(STAMP) ## What is generated or pinned still matches its source
	cd broker-image && ../$(VENV)/bin/python tests/support/documents.py --check
	$(VENV)/bin/pip check
	$(VENV)/bin/python broker-image/tests/support/pins.py

ci: ## What CI runs: the tests, the quick bench, the drift checks
	@$(NEED) venv java mvn kcat
	@.ci/stages test bench-quick verify

kafka-jars: $(JARS) ## Apache Kafka 4.3.1 for the tests, in .cache

clean: ## Forget everything that was installed, downloaded or cached
	rm -rf $(VENV) .cache artifacts broker-image/src/*.egg-info
	find . -name .git -prune -o \( -name __pycache__ -o -name .mypy_cache -o -name .ruff_cache \
	    -o -name .pytest_cache -o -name .hypothesis \) -prune -exec rm -rf {} +
