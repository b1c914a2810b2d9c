# Needs Python 3.11, git and make; everything else goes into .venv. Nothing here reads HOME.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
TEST_STAMP := .venv/.installed-for-tests
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e

.PHONY: help setup setup-tests demo test test-all test-browser check bench results wheel

help:
	@echo "make demo    watch the embedded model catch its own errors (minutes, two CPU cores)"
	@echo "make test    run the tests"
	@echo "make test-all   the long ones too: every preset, page and tokenizer on every stand-in"
	@echo "make test-browser   look at the report in a real browser (needs chromium)"
	@echo "make check   lint, format, types, version against changelog"
	@echo "make bench   measure the cost of one verified answer"
	@echo "make results   measure the records in RECORDS: figures, docs/results.md, an HTML report"
	@echo "make wheel   build the wheel, install it elsewhere, import it"

# Two stamps: the demo, and whoever goes on to `remask serve`, need no test packages.
setup: $(STAMP)
setup-tests: $(TEST_STAMP)

# A stamp depends on what decides the packages: a second call installs nothing.
$(STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(INSTALL) '.[semantic,serve]'
	touch $(STAMP)

$(TEST_STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(INSTALL) '.[semantic,math,align,trl,serve,ray,gguf,quant,clients,dev]'
	touch $(STAMP) $(TEST_STAMP)

demo: setup
	$(BIN)/remask demo

# Two workers, for two cores; without -n the same tests run one after the other.
WORKERS ?= 2
test: setup-tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-all: setup-tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "full or not full"

# Kept out of the default run, which needs no browser.
test-browser: setup-tests
	$(BIN)/python -m pytest -m browser tests/browser

check: setup-tests
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python tests/check_version.py

bench: setup-tests
	$(BIN)/python benchmarks/verify.py

RECORDS ?= records
results: setup-tests
	$(BIN)/python experiments/results.py $(RECORDS) $(if $(COMMIT),--commit $(COMMIT)) $(if $(HARDWARE),--hardware "$(HARDWARE)")

# dist/ is emptied first, so that the wheel under test is the one just built.
wheel: setup-tests
	rm -rf dist build
	$(BIN)/python -m build --wheel
	$(BIN)/python tests/check_wheel.py dist/*.whl
