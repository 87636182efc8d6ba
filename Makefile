# Everything a developer calls. Each target sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
PYTEST_ARGS ?=

# Programs of a second Postgres, on which the database tests run again.
OTHER_POSTGRES = $(shell scripts/other-postgres)

.PHONY: help setup up test test-long audit fmt lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: ## Install everything from the lock files; quick when nothing changed
	@PYTHON="$(PYTHON)" scripts/setup

up: setup ## Start the whole system on this machine
	$(BIN)/pagewarden up

test: setup ## Check style, types and imports, then run the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 3 $(PYTEST_ARGS)
	$(if $(OTHER_POSTGRES),$(BIN)/pytest -n 3 $(PYTEST_ARGS) tests/database \
		--server-bin $(OTHER_POSTGRES),@echo "no other Postgres here to run the database tests on")

test-long: setup ## Run the tests that take minutes
	$(BIN)/pytest -m long $(PYTEST_ARGS)

audit: setup ## Ask for known holes in what the lock names (needs the network)
	$(BIN)/python -m pip install --quiet --target .venv/audit pip-audit
	PYTHONPATH=.venv/audit $(BIN)/python -m pip_audit --disable-pip --require-hashes -r requirements.lock

fmt: setup ## Format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## Choose the versions of the dependencies anew (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-header --output-file requirements.lock

clean: ## Remove everything that setup and the tools made
	rm -rf .venv node_modules dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
