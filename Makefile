# Everything runs in .venv; a fresh machine needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 4

.PHONY: demo test check unit soak bench clean fmt docs
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[test,check]"
	touch $(STAMP)

demo: $(STAMP)            ## the offline tour: five turns, what resume saved
	$(BIN)/clew demo

test: check unit          ## everything: style, types, import contracts, all tests

check: $(STAMP)           ## ruff, mypy strict, import contracts, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)            ## the test suite
	$(BIN)/pytest -n $(WORKERS) -m "not soak"

soak: $(STAMP)            ## long random runs
	CLEW_SOAK=1 $(BIN)/pytest -n $(WORKERS) -m soak

bench: $(STAMP)           ## measures, and rewrites the table in bench/README.md
	$(BIN)/python -m bench

docs: $(STAMP)            ## rewrites the reference that is generated from the code
	$(BIN)/python -m clew.cli.reference

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
