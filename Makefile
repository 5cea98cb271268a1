# make help lists the targets. Each sets up what it needs in .venv, and again when pyproject.toml changes.

PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
TORCH := torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help test test-all test-slow test-torch test-browser test-stranger test-adversarial reproduce record lint types contract docs figures bench clean

help:  ## this list
	@echo "make <target>, where <target> is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' Makefile
	@echo "Choose the interpreter with PYTHON=python3.12, pass options to pytest with PYTEST_ARGS='-k rank'."

test: $(VENV)/.dev  ## the tests, but for those that take long
	@echo "Running the tests ..."
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(PYTEST_ARGS)

test-all: test test-slow  ## the tests, then those that take long

test-slow: $(VENV)/.dev  ## those that take long: batteries, experiments, the examples of the documentation
	@echo "Running the tests that take long ..."
	@$(BIN)/python -m pytest -n $(JOBS) -m slow $(PYTEST_ARGS)

test-torch: $(VENV)/.torch  ## the tests that need PyTorch (installed if missing)
	@echo "Running the tests that need PyTorch ..."
	@$(BIN)/python -m pytest -m torch $(PYTEST_ARGS)

test-browser: $(VENV)/.dev  ## the page of claims in headless Chromium, where there is one
	@echo "Opening the page of claims in Chromium ..."
	@$(BIN)/python -m pytest -m browser -n $(JOBS) $(PYTEST_ARGS)

test-stranger: $(VENV)/.dev  ## some of the tests as on a machine that has only a clone
	@echo "Running tests in a clone with an empty home folder, no data, no network, no browser, no PyTorch ..."
	@.ci/stranger/run

test-adversarial: $(VENV)/.dev  ## random problems that try to break limit: PROBLEMS=2000 SEED=0 SECONDS=6
	@$(BIN)/python -m tests.adversarial --problems $(or $(PROBLEMS),100) --seed $(or $(SEED),0) --seconds $(or $(SECONDS),6) --jobs $(JOBS)

reproduce: $(VENV)/.run  ## re-run the papers, claim by claim, and write report/index.html
	@$(BIN)/rankfall reproduce

record: reproduce  ## bring the tables and figures of README and docs up to date with the report
	@$(BIN)/python docs/record.py report

lint: $(VENV)/.dev  ## ruff: rules and format
	@echo "Checking the rules and the format with ruff ..."
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy
	@echo "Checking the types with mypy ..."
	@$(BIN)/mypy

contract: $(VENV)/.dev  ## import-linter: imports go one way
	@echo "Checking that imports go one way ..."
	@$(BIN)/lint-imports --no-logo

docs: $(VENV)/.dev  ## build the documentation into site/
	@echo "Building the documentation ..."
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The documentation is in site/index.html."

figures: $(VENV)/.dev  ## draw the figures of the theory pages again
	@echo "Drawing the figures of the theory pages ..."
	@$(BIN)/python docs/theory_figures.py

bench: $(VENV)/.torch  ## speed side by side with PyTorch and others; prints ratios
	@$(BIN)/python -m benchmarks

clean:  ## remove .venv, site and the caches
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "rankfall needs Python 3.11 or newer, and there is no '$(PYTHON)' here. Name one: make PYTHON=/path/to/python3"; \
	    exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "rankfall needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version). Name another: make PYTHON=python3.12"; \
	    exit 1; }
	@echo "Creating a Python environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -f $@; exit 1; }

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "Installing rankfall and what it needs into $(VENV); the first time this takes a few minutes ..."
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing rankfall, its tests and its documentation into $(VENV); the first time this takes a few minutes ..."
	@$(PIP) -e ".[dev,docs]"
	@touch $(VENV)/.run $@

$(VENV)/.torch: $(VENV)/.dev
	@echo "Installing PyTorch ($(TORCH)) into $(VENV) ..."
	@$(PIP) $(TORCH)
	@touch $@
