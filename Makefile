# Targets for developers. Each target sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
PYTEST_ARGS ?=

# Folder of the programs of a second Postgres, on which some database tests run again.
OTHER_POSTGRES = $(shell scripts/other-postgres)
# The database tests that could depend on the Postgres version: migrations, plans, locking, the state
# machines, and the statements of operators.
OTHER_POSTGRES_TESTS = $(addprefix tests/database/test_,$(addsuffix .py,alerts bad_input bootstrap \
	catalog check_job_machine events extraction_queue fencing migrations query_plans races search \
	seed_statements state_machine volume_state_machine volume_statements))

# More processes than cores, because many tests wait for other programs.
PYTEST = $(BIN)/pytest -n 4 --dist worksteal $(PYTEST_ARGS)

.PHONY: help setup up lint test quick bench bench-test test-long test-postgres wheel audit fmt generate lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: ## Install everything from the lock files; fast if nothing changed
	@PYTHON="$(PYTHON)" scripts/setup

up: ## Start the whole system on this machine
	@PYTHON="$(PYTHON)" scripts/setup up
	$(BIN)/pagewarden up

lint: setup ## Check style, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Check style, types and imports, then run the tests
	$(PYTEST)
	$(if $(OTHER_POSTGRES),$(PYTEST) $(OTHER_POSTGRES_TESTS) --server-bin $(OTHER_POSTGRES),\
		@echo "no second Postgres found; database tests ran only on the embedded one")

quick: lint ## Run lint and the fast tests, for use after each change
	$(PYTEST) -m "not slow and not long and not bench"

bench: setup ## Run a benchmark: make bench NAME=queue ARGS=--quick; without a name, list them
	$(BIN)/python -m benchmarks $(or $(NAME),--help) $(ARGS)

bench-test: setup ## Run the tests of the benchmarks
	$(PYTEST) -m "bench and not long"

test-long: setup ## Run the tests that take minutes
	$(BIN)/pytest -m long $(PYTEST_ARGS)

test-postgres: setup ## Run database tests on another Postgres: make test-postgres POSTGRES=17
	folder=$$($(BIN)/python scripts/fetch-postgres $(POSTGRES)) && \
		$(PYTEST) $(OTHER_POSTGRES_TESTS) --server-bin "$$folder"

wheel: setup ## Build the wheel into dist; TAG=v1.2.3 requires that version
	rm -rf dist
	$(BIN)/python -m hatchling build --target wheel
	$(if $(TAG),ls dist/pagewarden-$(TAG:v%=%)-*.whl)

audit: setup ## Check the locked packages for known vulnerabilities (needs the network)
	$(BIN)/uv pip install --quiet --target .venv/audit pip-audit
	PYTHONPATH=.venv/audit $(BIN)/python -m pip_audit --disable-pip --require-hashes -r requirements.lock

fmt: setup ## Format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: setup ## Generate the typed client, its types, digests and the reference
	PYTHONPATH=. $(BIN)/python scripts/generate.py
	$(BIN)/python scripts/reference.py

lock: ## Update the locked versions of the dependencies (needs uv)
	$(or $(wildcard $(BIN)/uv),uv) pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-header --output-file requirements.lock

clean: ## Remove all files that setup and the tools created
	rm -rf .venv node_modules dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
