# Two commands do everything: `make demo` and `make test`. Both need Python >= 3.11 and make, nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: demo test lint docs pages test-slow floors trust trust-quick clean

demo: $(READY)
	$(BIN)/mrgpssm demo

test: lint
	JAX_ENABLE_X64=1 $(PYTEST) -m "not slow"
	JAX_ENABLE_X64=0 $(PYTEST) -m "not slow"

lint: $(READY)
	$(BIN)/ruff format --check src tests benchmarks trust docs/hooks.py
	$(BIN)/ruff check src tests benchmarks trust docs/hooks.py
	$(BIN)/lint-imports
	$(BIN)/basedpyright

docs: $(READY)
	$(BIN)/mkdocs build --strict --quiet
	@echo "Open build/site/index.html"

# The pages of docs that are made from the records in results.
pages: $(READY)
	$(BIN)/python benchmarks/pages

test-slow: $(READY)
	JAX_ENABLE_X64=1 $(PYTEST) -m slow

# The oldest packages that pyproject.toml allows, in an environment of their own; needs the network.
floors:
	$(PYTHON) tests/floors.py

# Every promise of docs/trust.md that has no record yet (all with AGAIN=1): hours. trust-quick: minutes, no records.
trust: $(READY)
	$(BIN)/python trust/run.py $(if $(AGAIN),--again)

trust-quick: $(READY)
	$(BIN)/python trust/run.py --quick

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mrgpssm needs Python 3.11 or newer; set PYTHON=... to one.")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) demo-output build/site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
