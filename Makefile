# Everything runs from a virtual environment in .venv and on servers embedded in it; see `make help`.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= python3
ARGS ?=
PY := .venv/bin/python
UV := .venv/bin/uv
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --custom-compile-command "make lock"

OPENAPI := $(PY) manage.py spectacular --format openapi-json --validate --fail-on-warn

.PHONY: help setup demo bench soak mutants test kafka test-kafka check check-on-servers shell lock schemas dashboard

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "ARGS=... is passed on; DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS, when set, replace the embedded servers."

setup: .venv/.ready ## Make .venv with the locked dependencies (PYTHON=python3.12 chooses the Python)

.venv/.ready: requirements-uv.lock requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Python 3.11 or later is needed, "$(PYTHON)" is not that. Name another: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; \
		exit 2; }
	@$(PYTHON) dev/bootstrap.py

demo: setup ## Run the whole system with sample data; Ctrl-C ends it; ARGS=--once tells the story once
	@$(PY) -m dev.demo $(ARGS)

test: setup ## Run the tests, e.g. make test ARGS="tests/outbox -x"
	@$(PY) -m pytest --numprocesses=2 --dist=loadscope $(ARGS)

kafka: setup ## Run one node of Apache Kafka (Maven, Java 17) until Ctrl-C; prints its address
	@$(PY) -m dev.apache_kafka $(ARGS)

test-kafka: setup ## Run the broker tests on Apache Kafka instead of the embedded broker
	@EMBEDDED_KAFKA=apache $(PY) -m pytest -m kafka --numprocesses=2 --dist=loadscope $(ARGS)

bench: setup ## Measure the hot loops against their bounds into docs/benchmarks.md; ARGS=--help tells the choices
	@$(PY) -m benchmarks $(ARGS)

soak: setup ## Run real workers under load, minutes long; prints a table, ends non-zero when a promise is broken
	@$(PY) -m benchmarks.soak $(ARGS)
	@CHAOS_ROUNDS=$${CHAOS_ROUNDS:-30} $(PY) -m pytest --quiet tests/outbox/test_chaos.py

mutants: setup ## Put small defects into the core's rules, each to be noticed by a test; ARGS=MODULE.py checks one module
	@$(PY) -m dev.mutants $(ARGS)

check: setup ## Check format, lint, types, import layers, migrations and generated files
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	@$(PY) -m dev.run -- $(MAKE) --no-print-directory check-on-servers

check-on-servers:
	$(PY) -m mypy .
	$(PY) -m dev.migrations
	$(PY) -m contracts.generate --check
	$(PY) -m deploy.dashboard --check
	$(OPENAPI) | cmp - docs/openapi.json
	$(PY) manage.py print_docs --check

shell: setup ## Open a Django shell on embedded servers with an empty, migrated database
	@$(PY) -m dev.run -- $(PY) manage.py shell $(ARGS)

lock: setup ## Lock the dependencies of pyproject.toml anew; ARGS="--upgrade" takes newer ones
	$(LOCK) $(ARGS) --group pyproject.toml:bootstrap --output-file requirements-uv.lock
	$(LOCK) $(ARGS) pyproject.toml --output-file requirements.lock
	$(LOCK) $(ARGS) pyproject.toml --group dev --constraint requirements.lock --output-file requirements-dev.lock

schemas: setup ## Write the messages' JSON Schemas and examples and the API's docs/openapi.json from the code
	@$(PY) -m contracts.generate
	@DATABASE_URL=postgresql://none@localhost/none KAFKA_BOOTSTRAP_SERVERS=localhost:9092 $(OPENAPI) > docs/openapi.json

dashboard: setup ## Write Grafana's dashboard deploy/grafana/calendar-overview.json from deploy/dashboard.py
	@$(PY) -m deploy.dashboard
