# Everything a developer calls. Each target sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
PYTEST_ARGS ?=

# Programs of a second Postgres, on which the database tests run again.
OTHER_POSTGRES = $(shell scripts/other-postgres)
# Of the database tests those in which another version could make a difference: migrations, plans,
# locking, the state machines, and the statements of operators.
OTHER_POSTGRES_TESTS = $(addprefix tests/database/test_,$(addsuffix .py,alerts bad_input bootstrap \
	catalog check_job_machine events extraction_queue fencing migrations query_plans races search \
	seed_statements state_machine volume_state_machine volume_statements))

# More processes than cores: many tests wait for other programs.
PYTEST = $(BIN)/pytest -n 4 --dist worksteal $(PYTEST_ARGS)

.PHONY: help setup up lint test quick bench bench-test test-long audit fmt generate lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: ## Install everything from the lock files; quick when nothing changed
	@PYTHON="$(PYTHON)" scripts/setup

up: setup ## Start the whole system on this machine
	$(BIN)/pagewarden up

lint: setup ## Check style, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Check style, types and imports, then run the tests
	$(PYTEST)
	$(if $(OTHER_POSTGRES),$(PYTEST) $(OTHER_POSTGRES_TESTS) --server-bin $(OTHER_POSTGRES),\
		@echo "no other Postgres here to run the database tests on")

quick: lint ## Run what a developer runs after each change: no whole programs, no browser
	$(PYTEST) -m "not slow and not long and not bench"

bench: setup ## Run a benchmark: make bench NAME=queue ARGS=--quick; without a name, list them
	$(BIN)/python -m benchmarks $(or $(NAME),--help) $(ARGS)

bench-test: setup ## Run the tests of the benchmarks
	$(PYTEST) -m "bench and not long"

test-long: setup ## Run the tests that take minutes
	$(BIN)/pytest -m long $(PYTEST_ARGS)

audit: setup ## Ask for known holes in what the lock names (needs the network)
	$(BIN)/python -m pip install --quiet --target .venv/audit pip-audit
	PYTHONPATH=.venv/audit $(BIN)/python -m pip_audit --disable-pip --require-hashes -r requirements.lock

fmt: setup ## Format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: setup ## Write what follows from the code: the typed client, its types, digests, the reference
	PYTHONPATH=. $(BIN)/python scripts/generate.py
	$(BIN)/python scripts/reference.py

lock: ## Choose the versions of the dependencies anew (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-header --output-file requirements.lock

clean: ## Remove everything that setup and the tools made
	rm -rf .venv node_modules dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
