# make demo: the main job on embedded data; make test: lint, types and tests.
# Each sets up its own virtual environment in .venv first and is quick when run again.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= 2
ifdef SLOW
SELECT :=
else
SELECT := -m "not slow"
endif

.PHONY: help demo test lint types tests coverage format figures docs bench bench-check clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "multipartite needs Python 3.10 or newer; set PYTHON=..."; exit 1; }
	@echo "Setting up a virtual environment in .venv ..."
	@$(PYTHON) -m venv .venv && touch $@

.venv/for-demo: .venv/created pyproject.toml constraints.txt hatch_build.py src/multipartite/pooling/kernels.c
	@echo "Installing multipartite and what the experiments need ..."
	@$(PIP) -e '.[experiments]' && touch $@

.venv/for-test: .venv/for-demo
	@echo "Installing the tools that the tests need ..."
	@$(PIP) -e '.[experiments,export,docs,dev]' && touch $@

demo: .venv/for-demo ## compare pooling methods on scikit-learn's digits and report
	@echo "Comparing pooling methods on scikit-learn's digits, 5 seeds each: about two minutes on two cores ..."
	@$(BIN)/multipartite compare digits --out demo

test: lint types tests ## lint, check types, run the tests (SLOW=1: the slow ones too)

lint: .venv/for-test
	@echo "Linting ..." && $(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/for-test
	@echo "Checking types ..." && $(BIN)/mypy

tests: .venv/for-test
	@echo "Testing ..." && $(BIN)/pytest -q -n $(WORKERS) $(SELECT)

coverage: .venv/for-test ## run the tests with coverage
	@$(BIN)/pytest -q -n $(WORKERS) $(SELECT) --cov --cov-report=term-missing

format: .venv/for-test ## format the code
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

figures: .venv/for-demo ## draw the pictures of the documentation anew
	@$(BIN)/python docs/figures.py && $(BIN)/python docs/figure_kept.py && $(BIN)/python docs/figure_two_steps.py && $(BIN)/python docs/figure_made.py

.venv/for-docs: .venv/for-demo
	@echo "Installing what the site needs ..."
	@$(PIP) -e '.[experiments,docs]' && touch $@

docs: .venv/for-docs ## build the site in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet && echo "open site/index.html"

bench: .venv/for-demo ## time the layers and networks against max pooling
	@$(BIN)/multipartite bench

bench-check: .venv/for-demo ## say what got slower by more than 25% than benchmarks/baseline.json
	@$(BIN)/multipartite bench --quick --threads 2 --check benchmarks/baseline.json

clean: ## remove the environment and what the commands wrote
	@rm -rf .venv demo runs site build dist htmlcov .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
