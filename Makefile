# `make demo` runs the main job, `make test` passes the tests. Each sets up its own virtual environment in .venv first,
# and does so again only when pyproject.toml or constraints.txt has changed.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-bench
IMPUTERS := .venv-imputers
HYPERIMPUTE := .venv-hyperimpute
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types unit bench bench-imputation clean

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

bench-imputation: $(IMPUTERS)/.installed $(HYPERIMPUTE)/.installed
	$(IMPUTERS)/bin/python benchmarks/imputation/run.py --page docs/imputation.md

$(IMPUTERS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(IMPUTERS)
	$(IMPUTERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[imputers]'
	@touch $@

# HyperImpute needs older packages than ours. Where it cannot be installed, the benchmark says so.
$(HYPERIMPUTE)/.installed:
	$(PYTHON) -m venv $(HYPERIMPUTE)
	-$(HYPERIMPUTE)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 hyperimpute 'scikit-learn<1.7' 'pandas<3'
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(IMPUTERS) $(HYPERIMPUTE) out build .mypy_cache .ruff_cache .pytest_cache .hypothesis
