# rpcaccel. `make run` and `make test` need Python >= 3.11 and make; everything else they fetch into .venv.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: run test test-all coverage soak storms truth disk live lint format reference bench bench-hot clean help prepare

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RECENT := import sys; sys.exit(sys.version_info < (3, 11))

# The first of these that runs and is recent enough; `make run PYTHON=/path/to/python3.12` names another.
PYTHON ?= $(shell for python in python3 python3.13 python3.14 python3.12 python3.11 python; do \
	$$python -c '$(RECENT)' 2>/dev/null && { echo $$python; break; }; done)

NODES ?=
ARGS ?=
SECONDS ?= 600
CALLS ?= 100000
STORMS ?= 1000
FROM ?= 18
BLOCKS ?= 1000
KILLS ?= 50

run: $(VENV)/.installed ## serve NODES="https://a https://b,weight=2"; without NODES the demo (ARGS for further flags)
	@exec $(BIN)/rpcaccel $(if $(strip $(NODES)),serve $(NODES),demo) $(ARGS)

# Two cores take four processes: many tests wait for others. What is slow to collect or start is shared within each.
PYTEST := $(BIN)/python -m pytest -n 4 --dist worksteal
LANE ?= -m "not deep"

test: prepare ## the quick lane in three to six minutes, lint beside it (ARGS="-k redis" for a part; LANE= for every test)
	@$(MAKE) --no-print-directory lint >$(VENV)/lint.log 2>&1 & lint=$$!; \
	$(PYTEST) $(LANE) $(ARGS); tests=$$?; \
	wait $$lint || { cat $(VENV)/lint.log; exit 1; }; exit $$tests

test-all: ## every test, with four times the examples for each property
	@$(MAKE) --no-print-directory test LANE= ARGS="--hypothesis-profile=thorough $(ARGS)"

coverage: prepare ## the quick lane, and how much of each package runs in it: 92 % at the least
	$(PYTEST) $(LANE) --cov --cov-report= $(ARGS)
	$(BIN)/python -m tests.support.coverage_by_package 92

# What goes on for long by request is not taken for a test that hangs.
PATIENT := -o faulthandler_timeout=0

soak: prepare ## steady traffic for SECONDS=600: nothing may grow
	SOAK_SECONDS=$(SECONDS) $(BIN)/python -m pytest -p no:randomly -s $(PATIENT) tests/deep/hostile/test_soak.py

storms: prepare ## nodes that die, hang and come back under CALLS=100000 calls each
	CHAOS_CALLS=$(CALLS) $(BIN)/python -m pytest -s $(PATIENT) tests/deep/chaos/test_storms.py

truth: prepare ## STORMS=1000 long stories of the truth from number FROM=18 on; one that fails is told by its number
	TRUTH_FROM=$(FROM) TRUTH_STORMS=$(STORMS) $(BIN)/python -m pytest -q $(PATIENT) \
		tests/deep/truth/test_truth.py -k in_a_storm

disk: prepare ## two workers that write to the disk tier are killed KILLS=50 times in mid-write
	DISK_KILLS=$(KILLS) $(BIN)/python -m pytest -s $(PATIENT) tests/deep/disk/test_kills.py

live: prepare ## ethers, viem and web3.py subscribed for BLOCKS=1000 while real nodes are killed KILLS=50 times
	LIVE_BLOCKS=$(BLOCKS) LIVE_KILLS=$(KILLS) $(BIN)/python -m pytest -s $(PATIENT) \
		tests/deep/live/test_real_clients.py -k while_nodes_die

lint: $(VENV)/.installed-test ## style, types and the contracts of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxfmt --check dashboard/src
	$(BIN)/mypy --strict rpcaccel tests/support tests/conftest.py
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-test ## let ruff lay out the Python, and oxfmt the page
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt dashboard/src

reference: $(VENV)/.installed-test ## write docs/settings.md and the table of commands from the program
	$(BIN)/python -m rpcaccel check --reference >docs/settings.md.new && mv docs/settings.md.new docs/settings.md
	$(BIN)/python -m tests.support.commands_table

bench: $(VENV)/.installed-test ## measure, and write docs/benchmarks.md's tables (ARGS='--only misses', '--short')
	$(BIN)/python -m benchmarks --out docs/benchmarks.md $(ARGS)

bench-hot: $(VENV)/.installed-test ## measure the benchmarked bodies alone
	$(BIN)/python -m pytest -m bench --benchmark-enable $(ARGS)

prepare: $(VENV)/.installed-test
	@sh tests/support/prepare.sh $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing rpcaccel into $(VENV) (once) ..."
	@$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing rpcaccel and its test tools into $(VENV) (once) ..."
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(BIN)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(RECENT)' || { \
		echo "rpcaccel needs Python 3.11 or newer, and '$(or $(PYTHON),python3)' is not." >&2; \
		echo "Install one, or name one: make run PYTHON=/path/to/python3.12" >&2; exit 1; }
	@sh tests/support/make_venv.sh "$(PYTHON)" $(VENV)

clean: ## remove what make made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .benchmarks
	rm -rf .hypothesis .grimp_cache .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find rpcaccel tests benchmarks locustfiles -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
