# make demo    installs perdure into .venv and runs a real conversation through it
# make test    installs what is missing and passes every check and test
# make quick   lint, types and the tests that start no server
# make properties   draws a thousand examples for each property (make test draws 40)
# make conformance   fetches other people's programs into ~/.cache/perdure-judges, and has them judge perdure
# make bench   prints the tables of benchmarks/ that need no data from elsewhere
# make dist    builds what is published into dist/, twice, and checks it
# make dist-check   installs dist/ into an empty environment from a local index, and runs it without a network

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# All that `pip install perdure` brings, from this checkout. Building the weights fetches them once (90 MB).
WHOLE := ./packages/minilm ./packages/perdure --editable .
PACKAGED := pyproject.toml packages/perdure/pyproject.toml packages/minilm/pyproject.toml packages/minilm/hatch_build.py

# Every provider's driver: the tests run them all.
MODELS := minilm,openai,azure_openai,anthropic,google,ollama,huggingface
STORES := pgvector,qdrant,chroma,faiss,weaviate,milvus,elasticsearch,redis,pinecone,azure_ai_search,markdown
RERANKERS := cross_encoder,cohere,jina,voyage
EXTRAS := $(MODELS),$(RERANKERS),postgres,$(STORES),neo4j,server,fast,metrics,yaml,mcp

.PHONY: demo test quick lint types unit properties conformance bench dist dist-check clean

demo: $(VENV)/.run
	$(BIN)/perdure demo

test: lint types unit

# No conftest of these folders starts a server; `make test` runs everything.
QUICK := tests/domain tests/pipeline tests/benchmarks tests/test_floors.py tests/test_covers.py

quick: lint types
	$(BIN)/pytest -n auto $(QUICK)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m tests.engines.prepare
	$(BIN)/pytest -rs -n auto --dist loadgroup

properties: $(VENV)/.dev
	$(BIN)/pytest -n auto --hypothesis-profile=thorough -m hypothesis $(QUICK)

JUDGED := tests/conformance tests/frontends/mcp/test_knowledge_graph.py tests/frontends/cli/test_install.py

conformance: $(VENV)/.dev
	PATH="$$($(BIN)/python -m tests.conformance.programs):$$PATH" $(BIN)/pytest -rs -s $(JUDGED)

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/encoder.py
	$(BIN)/python benchmarks/wordpiece.py
	$(BIN)/python benchmarks/bulk.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/crash.py --kills 50
	$(BIN)/python benchmarks/answers.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "perdure needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade "pip>=25.1"

$(VENV)/.run: $(PACKAGED) | $(VENV)/bin/python
	$(PIP) install --quiet $(WHOLE)
	touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.run
	$(PIP) install --quiet --editable ".[$(EXTRAS)]" --group dev
	touch $@

dist: $(VENV)/.dev
	$(BIN)/python packages/build.py dist

dist-check: dist
	$(BIN)/python packages/check_install.py dist

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
