# Needs Python 3.11, git and make; everything else goes into .venv. Nothing here reads HOME.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
TEST_STAMP := .venv/.installed-for-tests
DOCS_STAMP := .venv/.installed-for-docs
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e

.PHONY: help setup setup-tests demo test test-all test-matrix test-browser check bench results wheel setup-docs docs notebooks check-notebooks

help:
	@echo "make demo    watch the embedded model catch its own errors (minutes, two CPU cores)"
	@echo "make test    run the tests"
	@echo "make test-all   the long ones too: every preset, page and tokenizer on every stand-in"
	@echo "make test-matrix   other major versions of openai and huggingface_hub, in environments of their own"
	@echo "make test-browser   look at the report in a real browser (needs chromium)"
	@echo "make check   lint, format, types, version against changelog"
	@echo "make bench   measure the cost of one verified answer"
	@echo "make results   measure the records in RECORDS: figures, docs/results.md, an HTML report"
	@echo "make docs    build the documentation into build/site, and look for dead links"
	@echo "make notebooks, check-notebooks   run the tutorials: keep what they print, or compare it"
	@echo "make wheel   build the source archive and from it the wheel, install it elsewhere, import it"

# Stamps of their own: the demo, and whoever goes on to `remask serve`, need neither tests nor docs.
setup: $(STAMP)
setup-tests: $(TEST_STAMP)
setup-docs: $(DOCS_STAMP)

# A stamp depends on what decides the packages: a second call installs nothing.
$(STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(INSTALL) '.[semantic,serve]'
	touch $(STAMP)

$(TEST_STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(INSTALL) '.[semantic,math,align,trl,serve,ray,rayserve,gguf,quant,clients,dev]'
	touch $(STAMP) $(TEST_STAMP)

$(DOCS_STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(INSTALL) '.[semantic,serve,docs]'
	touch $(STAMP) $(DOCS_STAMP)

demo: setup
	$(BIN)/remask demo

# Two workers, for two cores; without -n the same tests run one after the other.
WORKERS ?= 2
test: setup-tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-all: setup-tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "full or not full"

# Other major versions of two packages, each in an environment of its own: as clients of the server, and
# huggingface_hub also as what models are loaded with.
MATRIX := .venv/matrix
HUB_TESTS := tests/unit/denoisers/test_load.py tests/unit/denoisers/test_presets.py tests/standins/test_files.py
test-matrix: setup-tests
	for major in 2 3; do \
	  "$(PYTHON)" -m venv $(MATRIX)/openai$$major && \
	  $(MATRIX)/openai$$major/bin/python -m pip install -q --disable-pip-version-check "openai==$$major.*" && \
	  $(BIN)/python -m studies.checks.clients --python $(MATRIX)/openai$$major/bin/python --clients openai || exit 1; \
	done
	for major in 1 2; do \
	  "$(PYTHON)" -m venv $(MATRIX)/hub$$major && \
	  grep -v '^huggingface_hub' constraints.txt > $(MATRIX)/hub$$major/constraints.txt && \
	  $(MATRIX)/hub$$major/bin/python -m pip install -q --disable-pip-version-check \
	    -c $(MATRIX)/hub$$major/constraints.txt "huggingface_hub==$$major.*" pytest pytest-xdist hypothesis jinja2 -e . && \
	  $(BIN)/python -m studies.checks.clients --python $(MATRIX)/hub$$major/bin/python --clients huggingface_hub && \
	  $(MATRIX)/hub$$major/bin/python -m pytest $(HUB_TESTS) || exit 1; \
	done

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
	$(BIN)/python -m studies.paper.measure $(RECORDS) $(if $(COMMIT),--commit $(COMMIT)) $(if $(HARDWARE),--hardware "$(HARDWARE)")

# dist/ is emptied first, so that the wheel under test is the one just built. It is built from the source
# archive, which therefore lacks nothing either.
wheel: setup-tests
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/python tests/check_wheel.py dist/*.whl

# Warnings are errors: a page or an anchor that is not there, a name that the reference cannot find.
docs: setup-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python tests/check_site.py build/site $(if $(COMMIT),--figures docs/figures.json --commit $(COMMIT) --hardware "$(HARDWARE)")

notebooks: setup-docs
	$(BIN)/python website/notebooks.py --write

check-notebooks: setup-docs
	$(BIN)/python website/notebooks.py
