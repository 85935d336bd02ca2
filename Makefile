# Start with `make demo`. Everything here runs from the checkout, with the packages in .venv.

PYTHON ?= python3
SCHEDULES ?= 200
SEQUENCES ?= 2000
SEED ?= 1
# Tests that run fleets of processes: they wait more than they work, so all others run beside them.
FLEETS := chaos faults integration

export PYTHON
.DEFAULT_GOAL := help
.PHONY: help setup tools demo test test-of-fleets test-of-the-rest check bench up down chaos

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## .venv with everything, or nothing if it is current (PYTHON=python3.12 picks the Python of a new one)
	@bash deploy/run/setup.sh

tools: ## the outside programs that tests run, installed if they are missing (LibreOffice for doc and ppt, tesseract for scans)
	@bash deploy/run/test_tools.sh

demo: setup ## import a folder, index it with real workers, search it; about a minute
	@.venv/bin/python deploy/demo.py

test: tools check ## check, then every test, faults included
	@$(MAKE) --no-print-directory --jobs 2 --output-sync test-of-fleets test-of-the-rest

test-of-fleets:
	.venv/bin/python -m pytest $(addprefix tests/,$(FLEETS))

test-of-the-rest:
	.venv/bin/python -m pytest $(addprefix --ignore=tests/,$(FLEETS)) tests

check: setup ## lint, format, types, layering
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: setup ## ratios of speed and memory, measured here and now
	.venv/bin/python -m tests.bench

up: setup ## broker, workers, beat and Flower in the background
	@.venv/bin/python -m deploy.run.stack up

down: setup ## stop what `make up` started
	@.venv/bin/python -m deploy.run.stack down

chaos: setup ## SEQUENCES random lives of the model, then SCHEDULES of real processes; SEED names both
	.venv/bin/python -m tests.chaos.model --sequences $(SEQUENCES) --seed $(SEED)
	.venv/bin/python -m tests.chaos.schedules --schedules $(SCHEDULES) --seed $(SEED)
