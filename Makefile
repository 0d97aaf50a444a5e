# rpcaccel. `make run` and `make test` need Python >= 3.11 and make; everything else they fetch into .venv.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: run test lint format bench bench-hot bench-policies clean help prepare

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RECENT := import sys; sys.exit(sys.version_info < (3, 11))

# The first of these that runs and is recent enough; `make run PYTHON=/path/to/python3.12` names another.
PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.13 python; do \
	$$python -c '$(RECENT)' 2>/dev/null && { echo $$python; break; }; done)

NODES ?=
ARGS ?=

run: $(VENV)/.installed ## serve NODES="https://a https://b,weight=2"; without NODES the demo (ARGS for further flags)
	@exec $(BIN)/rpcaccel $(if $(strip $(NODES)),serve $(NODES),demo) $(ARGS)

# Hundreds of tests drive real processes on a machine that does other things too: one that fails runs once more, and
# both is said at the end. `python -m pytest` alone runs each test once.
test: lint prepare ## the whole suite, as CI runs it (ARGS="-k redis" for a part)
	$(BIN)/python -m pytest -n 3 --dist loadfile --reruns 1 --cov --cov-report=term-missing:skip-covered \
		$(if $(strip $(ARGS)),$(ARGS),--cov-fail-under=92)

lint: $(VENV)/.installed-test ## style, types and the contracts of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict rpcaccel tests/services.py tests/conftest.py
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-test ## let ruff lay out the source
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-test ## measure, and write docs/benchmarks.md's tables (ARGS='--only growth', '--short', '--all')
	$(BIN)/python -m tests.bench.evidence --out docs/benchmarks.md $(ARGS)

bench-hot: $(VENV)/.installed-test ## measure the benchmarked bodies alone
	$(BIN)/python -m pytest -m bench --benchmark-enable $(ARGS)

bench-policies: $(VENV)/.installed-test ## compare eviction policies (ARGS="--size 64MB"; theine and others if installed)
	$(BIN)/python -m tests.bench.policies $(ARGS)

prepare: $(VENV)/.installed-test
	@sh tests/prepare.sh $(VENV)

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
	@sh tests/make_venv.sh "$(PYTHON)" $(VENV)

clean: ## remove what make made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .benchmarks
	rm -rf .hypothesis .grimp_cache .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find rpcaccel tests -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
