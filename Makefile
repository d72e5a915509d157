# Every target does its own set-up, in a virtual environment inside the tree; it needs make and Python 3.11 or newer.
#
#   make demo             index the standard library as a durable flow, with a worker killed on the way
#   make test             format, lint, types, then all tests; stops at the first failure
#   make lint types       the first parts of it alone
#   make pytest TESTS=tests/unit ARGS=-x
#   make format docs      rewrite: formatting; drawings and tables that are generated from the code
#   make sim SEEDS=1000   simulated runs, each from its seed
#   make soak chaos       long runs under load; kill -9 at random moments, many rounds
#   make bench ARGS=...   benchmarks in real size (ARGS=--help shows how to ask)
#   make clean            remove everything that was made here
#
# PYTHON=python3.12 chooses the interpreter, VENV=.venv-3.12 keeps a second environment beside the first.

PYTHON ?= python3
VENV ?= .venv
TESTS ?= tests
SEEDS ?= 1000
ARGS ?=

# Byte code is kept beside the environment, whatever the shell says: engines of tests start three times as fast with it.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/byte-code

SHELL := /bin/sh
BIN := $(VENV)/bin
# Development mode: resource warnings, asyncio's debug mode; not the allocator's hooks, which would take a seventh of the time.
export PYTHONMALLOC := pymalloc
PYTEST := $(BIN)/python -X dev -m pytest
# All tests run in two processes: what starts processes of its own one by one, and beside it what only computes.
SPLIT := $(if $(filter tests,$(TESTS)),-n 2)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --no-input

# The interpreter asked for on the command line or in the environment and no other; else the first that will do.
ifeq ($(origin PYTHON),file)
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11 python
else
CANDIDATES := $(PYTHON)
endif

.NOTPARALLEL:
.PHONY: demo test lint types pytest format docs sim soak chaos bench clean
.DEFAULT_GOAL := test

test: lint types pytest

demo: $(VENV)/run.stamp
	@$(BIN)/python examples/index_stdlib.py $(ARGS)

lint: $(VENV)/test.stamp
	@$(BIN)/ruff format --check --quiet . || { echo "some files are not formatted: run make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .

types: $(VENV)/test.stamp
	@$(BIN)/mypy

pytest: $(VENV)/test.stamp
	@$(PYTEST) $(SPLIT) $(TESTS) $(ARGS)

format: $(VENV)/test.stamp
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

docs: $(VENV)/test.stamp
	@$(BIN)/python -m tests.tidy.generate

sim: $(VENV)/test.stamp
	@SIM_SEEDS=$(SEEDS) $(PYTEST) tests/sim $(ARGS)

# One test may take half an hour: only after an hour it hangs.
soak chaos: $(VENV)/test.stamp
	@$(PYTEST) tests -m $@ -o faulthandler_timeout=3600 $(ARGS)

bench: $(VENV)/run.stamp
	@$(BIN)/python -m runtime.bench $(ARGS)

clean:
	rm -rf .venv .venv-* build dist demo-out .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the environment needs is stated in pyproject.toml; a stamp that is newer means that nothing is to be fetched.
$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	@echo "installing mainspring into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	@echo "installing mainspring and its test tools into $(VENV)"
	@$(PIP) install --editable '.[test]'
	@touch $(VENV)/run.stamp $@

# Some systems split ensurepip from Python; there pip comes from the system's own pip where that exists.
$(BIN)/python:
	@for python in $(CANDIDATES); do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	    rm -rf $(VENV); \
	    "$$python" -m venv $(VENV) >/dev/null 2>&1 && exit 0; \
	    rm -rf $(VENV); \
	    "$$python" -m venv --without-pip $(VENV) >/dev/null 2>&1 && \
	    "$$python" -m pip --quiet --python $(BIN)/python install pip >/dev/null 2>&1 && exit 0; \
	    rm -rf $(VENV); \
	    echo "$$python cannot make virtual environments (on Debian and Ubuntu: apt install python3-venv)" >&2; \
	done; \
	echo "no usable Python 3.11 or newer among: $(CANDIDATES). Name one: make PYTHON=/path/to/python3.11" >&2; exit 1
