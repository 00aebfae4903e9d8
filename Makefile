# `make demo` runs the main job, `make test` passes the tests. Each sets up its own virtual environment in .venv first,
# and does so again only when pyproject.toml or constraints.txt has changed.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-bench
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types unit bench clean

demo: $(VENV)/.installed
	$(BIN)/dlgm demo --out out/demo

test: lint types unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

unit: $(VENV)/.installed-dev
	$(BIN)/pytest

bench: $(PEERS)/.installed
	$(PEERS)/bin/python benchmarks/bench.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(PEERS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) out build .mypy_cache .ruff_cache .pytest_cache .hypothesis
