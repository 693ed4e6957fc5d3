# Two commands from a fresh clone: make demo, make test. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help venv demo test lint test-vllm bench fuzz docs clean

help:
	@echo "make demo       watch a simulated server run out of memory, and prove the fix"
	@echo "make test       all checks and tests that need no real vLLM"
	@echo "make test-vllm  tests against a real vLLM on the CPU (built once in a cache folder)"
	@echo "make bench      measure vdoctor against grep, cat and an import of click; fail when it got slower"
	@echo "make fuzz       20000 damaged logs (nightly)"
	@echo "make docs       write again what is generated: pages, tables, outputs, the picture"

venv: $(STAMP)

$(STAMP): setup.cfg setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "vdoctor needs Python 3.10 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,fleet]'
	@touch $@

demo: venv
	@$(BIN)/vdoctor demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

test-vllm: venv
	$(BIN)/python tools/real_vllm.py
	$(BIN)/python -m pytest -m vllm --timeout 1500 --no-skips tests/vllm

bench: venv
	$(BIN)/python tools/bench.py --size 40 --large 120 --rounds 3 --check

fuzz: venv
	VDOCTOR_FUZZ=20000 $(BIN)/python -m pytest -n auto --dist worksteal tests/test_fuzz.py

docs: venv
	$(BIN)/python tools/write_docs.py
	$(BIN)/python tools/accuracy.py --write
	$(BIN)/python tools/shown.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
