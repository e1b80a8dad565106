# Each target sets up .venv by itself; nothing is installed outside it.

VENV := .venv
BIN := $(VENV)/bin
# The first of these that is new enough makes .venv; name another with `make PYTHON=...`.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11 python3.10

# Python compiles a module when it is first imported; compiling all at installation takes longer.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --editable

# Examples of each state machine in test-long.
EXAMPLES ?= 10000

# Processes for the tests: one more than two processors, as tests of nodes wait most of their time.
# Those take the processor first where that is permitted (test/system/processor_share.py), and long
# files start first (test/start_order.py). What fails beside other tests runs once more, alone, and
# must then pass: the nodes have real deadlines, which a shared processor may make them miss.
JOBS ?= 3

# A sourced ROS 2, or another environment with ROS wheels that runs this make, would put its own
# Python packages and libraries before those of .venv.
unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE LD_LIBRARY_PATH PYTHONPATH PYTHONHOME
unexport AMENT_PREFIX_PATH COLCON_PREFIX_PATH RMW_IMPLEMENTATION

# Without bytecode on disk every process, and so every node of the tests, compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help warmup demo view tables bench bench-export contacts conditions bench-loop bench-fleet compare robots examples test imported-tests test-long mutations unchanged fuzz soak docs lint format clean

help: ## show this text
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

warmup: $(VENV)/ros ## compile ahead; demo does it by itself
	$(BIN)/rbd-control warmup

demo: $(VENV)/demo warmup ## arm, controller and detector over ROS 2; results in report/
	$(BIN)/rbd-control demo --report report

view: $(VENV)/view warmup ## the same, shown in the browser while it runs
	$(BIN)/rbd-control demo --report report --view

tables: $(VENV)/ros ## published figures of the sources beside ours
	$(BIN)/python -m bench.tables

bench: $(VENV)/bench $(VENV)/rivals ## our speed beside Pinocchio's, MuJoCo's and others'; results in report/
	$(BIN)/python -m bench.speed --report report

bench-export: $(VENV)/bench $(VENV)/rivals ## exported C beside CasADi's and the compiled Python; results in report/
	$(BIN)/python -m bench.export --report report

contacts: $(VENV)/bench ## the detector on simulated contacts of five arms; results in report/
	$(BIN)/python -m bench.contacts --report report

conditions: $(VENV)/bench ## a calibrated detector under hard conditions, beside a plain observer; results in report/
	$(BIN)/python -m bench.conditions --report report

bench-loop: $(VENV)/bench warmup ## latency, losses and load of the nodes at 1 and 4 kHz; results in report/
	$(BIN)/python -m bench.loop --report report

bench-fleet: $(VENV)/bench warmup ## 500 recordings with 1 and 2 workers and with Dask; results in report/
	$(BIN)/python -m bench.fleet --report report

compare: $(VENV)/bench ## Slotine-Li beside PD and computed torque in MuJoCo; results in report/
	$(BIN)/python -m bench.compare --report report

robots: $(VENV)/bench ## the controller on arms with real drives and failures in MuJoCo; results in report/
	$(BIN)/python -m bench.robots --report report

examples: warmup ## run all scripts of examples/, beside a simulated arm where they need one
	$(BIN)/python -m bench.examples

# Three jobs at once keep two processors busy: linters and type checker, compilation of the kernels,
# first import of the tests.
test: ## linters, type checker and all tests
	@$(MAKE) --no-print-directory --jobs=3 lint warmup imported-tests
	@logs=$$(mktemp -d) && trap 'rm -rf "$$logs"' EXIT && \
	export ROS_LOG_DIR="$$logs" ROS_PYTHON_CHECK_FIELDS=1 && \
	{ $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder || { \
	  [ $$? -eq 1 ] && echo "Once more, alone: the tests that failed beside others" && \
	  $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none; }; }

# Python stores the bytecode of what it imports. Without this, each process of the tests would
# compile all of it, at the same time. An error is shown when the tests run.
imported-tests: $(VENV)/test
	@$(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true

test-long: $(VENV)/test ## 10,000 random examples of each state machine; more with EXAMPLES=n
	RBD_STATEFUL_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q -s -o faulthandler_timeout=0 test/stateful

mutations: $(VENV)/test warmup ## put about 110 known defects in; the tests must find each
	$(BIN)/python -m bench.mutations

unchanged: $(VENV)/test warmup ## compare all results with those in build/unchanged, see CONTRIBUTING.md
	$(BIN)/python -m bench.unchanged compare build/unchanged

fuzz: $(VENV)/test warmup ## 100,000 odd inputs for the running nodes, 5,000 files for the command line; results in report/
	$(BIN)/python -m bench.fuzz --report report

soak: $(VENV)/test warmup ## the nodes at 1 kHz for an hour, with pushes and faults; results in report/
	$(BIN)/python -m bench.soak --report report

docs: $(VENV)/docs ## the documentation site; results in build/docs
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

lint: $(VENV)/test ## linters and type checker only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/test ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove everything that was made here
	rm -rf $(VENV) build install log report *.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# Editable, so that a change of the sources needs no installation and keeps its compiled code.
$(VENV)/ros: $(BIN)/python setup.py setup.cfg pyproject.toml
	$(INSTALL) '.[ros]'
	@touch $@

$(VENV)/bench: $(BIN)/python setup.py setup.cfg pyproject.toml
	$(INSTALL) '.[ros,bench]'
	@touch $(VENV)/ros $@

# The benchmarks leave out what is not installed and say so.
$(VENV)/rivals: $(VENV)/bench
	@for extra in casadi clang drake frax; do \
	  $(INSTALL) ".[$$extra]" || \
	    echo "The extra $$extra cannot be installed here; the benchmarks leave it out." >&2; \
	done
	@touch $@

# The plots of demo.html need the extra `report`.
$(VENV)/demo: $(BIN)/python setup.py setup.cfg pyproject.toml
	$(INSTALL) '.[ros,report]'
	@touch $(VENV)/ros $@

$(VENV)/view: $(BIN)/python setup.py setup.cfg pyproject.toml
	$(INSTALL) '.[ros,report,view]'
	@touch $(VENV)/ros $@

$(VENV)/docs: $(BIN)/python setup.py setup.cfg pyproject.toml
	$(INSTALL) '.[docs]'
	@touch $@

# After what the nodes need, so that `make test` can compile kernels meanwhile.
$(VENV)/test: $(BIN)/python setup.py setup.cfg pyproject.toml | $(VENV)/ros
	$(INSTALL) '.[ros,test]'
	@touch $@

$(BIN)/python:
	@for python in $(PYTHON); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then \
	    echo "Setting up $(VENV) with $$($$python --version); the first time takes some minutes"; \
	    $$python -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); exit 1; \
	  fi; \
	done; \
	echo "rbd_control needs Python 3.10 or newer; looked for $(PYTHON)" >&2; exit 1
