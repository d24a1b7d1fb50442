# The two first commands are `make run` and `make test`. Both set up everything they need, once.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READINGS ?= 200000
SOURCE ?= files
# Processes that run the tests side by side; most tests wait for another process more than they compute.
WORKERS ?= 2
# What is not the default. Each kind of source has a root of its own: a checkpoint remembers what it reads, and a start
# from something else is refused.
RUN_OPTIONS = $(if $(filter-out files,$(SOURCE)),--root .surestart/local-$(SOURCE) --set source=$(SOURCE)) \
  $(if $(filter-out 200000,$(READINGS)),--set readings=$(READINGS))
LOCK := requirements/dev.txt
STAMP := $(VENV)/.installed
JARS := $(VENV)/.jars
UV := $(VENV)/.uv/bin/uv
UV_VERSION := 0.13.8
# Compiled once, and not into the sources: without it every start of Python compiles its modules again, one second of a
# driver's three. An image may forbid it in its environment.
export PYTHONPYCACHEPREFIX = $(CURDIR)/$(VENV)/.pycache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup java run test test-rest test-all lint format lock bench chaos chaos-today calibrate calibrate-rewind matrix test-connect test-serverless test-cluster test-line test-line-slice test-line-today test-lines browser kafka kafka-stop lock-jars clean

help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(JARS) ## install everything into .venv (done by the others when needed)

run: setup ## simulate sensor data, run the three stages, count lost and duplicated rows
	@$(BIN)/surestart run all --env local $(RUN_OPTIONS)

# What a target of its own runs, with what that needs.
APART := not chaos and not calibrate and not connect and not cluster and not lines and not serverless
SIDE_BY_SIDE = $(BIN)/python -m pytest -q --progress -n $(WORKERS) --no-loadscope-reorder

test: setup browser ## run a test of every protection, in six minutes (real Spark, Delta, Kafka, PostgreSQL)
	@$(SIDE_BY_SIDE) -m "not long and $(APART)" $(ARGS)

test-rest: setup browser ## what `make test` leaves to `make test-all`
	@$(SIDE_BY_SIDE) -m "long and $(APART)" $(ARGS)

test-all: setup browser ## all tests but those that take hours (chaos) or more than this machine has
	@$(SIDE_BY_SIDE) -m "$(APART)" $(ARGS)

lint: $(STAMP) ## ruff, format check, mypy --strict
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(STAMP) ## format the code
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup ## measure against naive Spark, Spark batch, delta-rs and DuckDB: one table (long)
	@$(BIN)/python -m benchmarks

# A slice begins no test that would end later than after so many minutes.
SLICE_MINUTES := 15

chaos: setup ## the full fault-injection counts (hours), or one slice of them: SLICE=7
ifdef SLICE
	@$(SIDE_BY_SIDE) -m chaos --timeout=3600 --slice $(SLICE) --minutes $(SLICE_MINUTES) --durations=0 --durations-min=5 $(ARGS)
else
	@$(BIN)/python -m pytest -q -m chaos --timeout=3600 $(ARGS)
endif

chaos-today: setup ## the slice of today
	@slice=$$($(BIN)/python -m tests.order.slices) && \
	  echo "chaos: today is the turn of slice $$slice; again: make chaos SLICE=$$slice" >&2 && \
	  $(MAKE) --no-print-directory chaos SLICE=$$slice

calibrate: setup ## restart damaged and rewound checkpoints on every line of Spark (hours)
	@$(BIN)/python benchmarks/calibrate.py
	@$(BIN)/python -m pytest -q -m calibrate tests/state
	@for line in $(LINES); do for what in rewind streams; do \
	  $(MAKE) --no-print-directory calibrate-$$what LINE=$$line || exit 1; done; done

# Each pair of a kind of state, what keeps it, what is read, and to which batch; CASE=join: those with a join.
calibrate-rewind: setup ## streams rewound by plan, apply and undo on one line of Spark, LINE=3.5
	@$(call on_line,-m chaos $(if $(CASE),-k "$(CASE)") tests/remedies/test_rewind_proof.py)

# Stopped, damaged, judged as `adopt` wrote them with nothing added by hand, started again, and counted.
calibrate-streams: setup ## the examples and 16 more kinds of streams of plain Spark on one line of Spark, LINE=3.5
	@$(call on_line,-m chaos tests/guarding/test_examples.py)
	@$(LINE_VENV)/bin/python -m benchmarks.matrix $(or $(CASE),line)

matrix: setup ## streams of plain Spark, healthy and damaged: what was said of each against what its start did (long)
	@$(BIN)/python -m benchmarks.matrix $(ARGS)

# The gate, the registry, the stages and every sink: the tests of `make test`, on a server instead of a classic session.
CONNECT_TESTS := tests/connect tests/guarding/test_on_connect.py tests/gate/test_start_gate.py tests/gate/test_side_by_side.py tests/foundation/test_stages.py \
  tests/gate/test_replaced_checkpoint.py tests/avro/test_stage.py tests/postgres/test_streaming.py tests/postgres/test_both.py
# databricks-connect and pyspark own the same files: never in one environment. Its server is of the line it is made for.
CONNECT := .venv-connect
CONNECT_LINE := 4.0
CONNECT_SERVER := .venv-$(CONNECT_LINE)
CONNECT_STAMP := $(CONNECT)/.installed
PYTHON312 ?= python3.12

test-connect: setup $(CONNECT_STAMP) $(CONNECT_SERVER)/.installed .venv-3.5/.installed ## the same tests on a Spark Connect server, by pyspark, a client of 3.5 and databricks-connect
	@$(BIN)/python -m tests.connect.with_server $(BIN)/python -m pytest -q -m "not chaos" --timeout=600 $(CONNECT_TESTS) $(ARGS)
	@$(BIN)/python -m tests.connect.with_server .venv-3.5/bin/python -m pytest -q -p no:cacheprovider -m "not chaos" --timeout=600 \
	  tests/connect tests/gate/test_start_gate.py $(ARGS)
	@$(CONNECT_SERVER)/bin/python -m tests.connect.with_server --worker $(CONNECT)/bin/python \
	  $(CONNECT)/bin/python -m pytest -q -p no:cacheprovider -m "not chaos" tests/connect tests/gate/test_start_gate.py $(ARGS)

# An environment version of serverless compute is a client, whose server may be of a later line: CLIENT=3.5
CLIENT = $(DEFAULT_LINE)
CLIENT_VENV = $(if $(filter $(DEFAULT_LINE),$(CLIENT)),$(VENV),.venv-$(CLIENT))

test-serverless: setup ## on a twin of serverless compute, which refuses what serverless refuses (long)
	@[ $(CLIENT) = $(DEFAULT_LINE) ] || $(MAKE) --no-print-directory $(CLIENT_VENV)/.installed
	@$(BIN)/python -m tests.connect.with_server --twin $(CLIENT_VENV)/bin/python -m pytest -q -m serverless --timeout=600 tests/serverless $(ARGS)

$(CONNECT_STAMP): requirements/connect.txt $(LOCK) pyproject.toml | $(UV)
	@echo "setup: databricks-connect in its own $(CONNECT), Python 3.12" >&2
	@$(UV) venv -q --clear --python $(PYTHON312) $(CONNECT)
	@$(UV) pip install -q --python $(CONNECT)/bin/python --require-hashes -r requirements/connect.txt
	@$(UV) pip install -q --python $(CONNECT)/bin/python -c $(LOCK) pytest pytest-timeout
	@$(UV) pip install -q --python $(CONNECT)/bin/python --no-deps -e .
	@touch $@

test-cluster: setup ## the pipeline on a standalone master with two workers
	@$(BIN)/python -m pytest -q -m cluster --timeout=1800 $(ARGS)

# Each line of Spark has an environment of its own; what belongs to a line is in surestart.spark.spark_lines. Stages, sinks, gate,
# remedies, Kafka and the doctor: those tests of `make test` that start Spark, and say more on another line.
LINES := 3.5 4.0 4.1 4.2
# That of requirements/dev.txt (surestart.spark.spark_lines).
DEFAULT_LINE := 4.1
LINE ?= 3.5
LINE_VENV = $(if $(filter $(DEFAULT_LINE),$(LINE)),$(VENV),.venv-$(LINE))
LINE_STAMP = $(LINE_VENV)/.installed
LINE_TESTS = $(addprefix tests/,foundation/test_stages.py foundation/test_rewound.py foundation/test_hostile_records.py \
  gate/test_start_gate.py kafka/test_source.py kafka/test_faults.py kafka/test_remedies_kafka.py postgres/test_streaming.py \
  avro/test_connector.py $(if $(filter 4.2,$(LINE)),,avro/test_stage.py) diagnosis/test_session_evidence.py diagnosis/test_foresight.py remedies/test_apply.py \
  remedies/test_replay.py remedies/test_reset.py $(if $(filter 3.5,$(LINE)),,remedies/test_catalog.py) remedies/test_backfill_and_retire.py \
  remedies/test_one_after_another.py)
# Of these, what one run to gold, the gate, one remedy with its undo, Kafka, PostgreSQL and the doctor take.
LINE_SLICE := $(addprefix tests/,foundation/test_stages.py remedies/test_reset.py diagnosis/test_foresight.py \
  diagnosis/test_session_evidence.py kafka/test_source.py::test_every_record_arrives_untouched_with_its_position \
  postgres/test_streaming.py::test_a_stream_appends_every_row_once_over_several_runs \
  $(addprefix gate/test_start_gate.py::,test_a_run_is_one_row_that_says_who_ran_what_and_how_far \
    test_of_two_claims_by_row_exactly_one_owns_the_query))
# `make test` is the default line; the others take turns, by the day of the year.
TODAY = $(word $(shell expr $$(date +%j) % 3 + 1),$(filter-out $(DEFAULT_LINE),$(LINES)))

test-line: setup ## the tests of stages, sinks, gate, remedies, Kafka and doctor on another line of Spark, LINE=3.5
	@$(call on_line,-n $(WORKERS) --no-loadscope-reorder $(LINE_TESTS))

test-line-slice: setup ## the few of these that each CI run makes on one line, LINE=3.5
	@$(call on_line,$(LINE_SLICE))

test-line-today: ## the slice on the line of today
	@echo "Spark $(TODAY) is the line of today" >&2
	@$(MAKE) --no-print-directory test-line-slice LINE=$(TODAY)

define on_line
[ -n "$(filter $(LINE),$(LINES))" ] || { echo "LINE=$(LINE) is not one of: $(LINES)" >&2; exit 2; }; \
[ $(LINE_STAMP) -nt requirements/line-$(LINE).txt ] || $(MAKE) --no-print-directory $(LINE_STAMP) || exit 1; \
$(LINE_VENV)/bin/python -m pytest -q $(1) $(ARGS)
endef

test-lines: setup $(LINES:%=.venv-%/.installed) ## a pipeline carried on from line to line of Spark, and the way back
	@$(BIN)/python -m pytest -q -s -m lines $(ARGS)

.venv-%/.installed: requirements/line-%.txt pyproject.toml | $(UV)
	@echo "setup: Spark $* in its own .venv-$*" >&2
	@$(UV) venv -q --clear --python $(PYTHON) .venv-$*
	@$(UV) pip install -q --python .venv-$*/bin/python --require-hashes -r $<
	@$(UV) pip install -q --python .venv-$*/bin/python --no-deps -e .
	@.venv-$*/bin/python -m surestart.spark.jars
	@touch $@

kafka: setup ## start a local Kafka broker on 127.0.0.1 (make kafka-stop ends it)
	@$(BIN)/surestart kafka start

kafka-stop: $(STAMP) ## stop the local Kafka broker; its topics are kept
	@$(BIN)/surestart kafka stop

java: $(VENV)/.uv/bin/uv ## install a Java runtime into .venv, for machines without Java 17 or 21
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements/jre.txt

lock: $(VENV)/.uv/bin/uv ## resolve the dependencies again
	@$(UV) pip compile $(LOCK_OPTIONS) pyproject.toml --extra local $(LOCKED_EXTRAS) -o requirements/local.txt
	@$(UV) pip compile $(LOCK_OPTIONS) pyproject.toml --extra local $(LOCKED_EXTRAS) --group dev --group bench -o $(LOCK)
	@$(UV) pip compile $(LOCK_OPTIONS) pyproject.toml --extra jre -o requirements/jre.txt
	@$(UV) pip compile $(subst 3.11,3.12,$(LOCK_OPTIONS)) pyproject.toml --extra connect --extra kafka --extra postgres --extra state -o requirements/connect.txt
	@for line in $(LINES); do $(UV) pip compile $(LOCK_OPTIONS) pyproject.toml --extra local-$$(echo $$line | tr . -) \
	  $(LOCKED_EXTRAS) --group dev -o requirements/line-$$line.txt; done
	@$(MAKE) --no-print-directory lock-jars

lock-jars: $(STAMP) | $(UV) ## resolve the jars of each line of Spark and of the broker again, and lock their SHA-256
	@$(BIN)/python -m surestart.local.kafka_jars --lock
	@for line in $(LINES); do \
	  [ -x .venv-$$line/bin/python ] || $(UV) venv -q --python $(PYTHON) .venv-$$line || exit 1; \
	  $(UV) pip install -q --python .venv-$$line/bin/python --require-hashes -r requirements/line-$$line.txt && \
	  $(UV) pip install -q --python .venv-$$line/bin/python --no-deps -e . && \
	  .venv-$$line/bin/python -m surestart.spark.jars --lock || exit 1; done
# Names, versions and hashes only: a lock must not name the registry it was resolved from.
LOCKED_EXTRAS := --extra kafka --extra postgres --extra databricks --extra state
LOCK_OPTIONS := -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --python-version 3.11

# A broker whose folder is gone is found by nobody and goes on; so it ends first, or nothing is removed.
BROKER := .surestart/kafka/broker.json
clean: ## remove local data (.surestart), not the environment
	@[ ! -e $(BROKER) ] || $(BIN)/surestart kafka stop --delete-topics
	rm -rf .surestart

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] < (3, 14) else "Python 3.11, 3.12 or 3.13 is needed; this is " + sys.version.split()[0] + ". Next: make $(MAKECMDGOALS) PYTHON=python3.12")'
	@echo "setup: creating $(VENV) and installing uv $(UV_VERSION)" >&2
	@$(PYTHON) -m venv $(VENV) && $(PYTHON) -m venv $(VENV)/.uv && $(VENV)/.uv/bin/python -m pip install -q uv==$(UV_VERSION)

$(STAMP): $(LOCK) pyproject.toml | $(UV)
	@echo "setup: installing $$(grep -c '^[a-z]' $(LOCK)) locked packages" >&2
	@$(UV) pip install --python $(BIN)/python --require-hashes -r $(LOCK) 2>&1 | grep -v '^ [+~-]' >&2; exit $${PIPESTATUS[0]}
	@$(UV) pip install -q --python $(BIN)/python --no-deps -e .
	@$(BIN)/python -c 'from surestart.spark.java import find_java; find_java()' 2>/dev/null || \
	  { echo "setup: no Java 17 or 21 here, installing one into $(VENV)" >&2; $(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements/jre.txt; }
	@touch $@

$(JARS): src/surestart/spark/jars.py $(wildcard src/surestart/spark/jar_locks/spark-*.json) $(STAMP)
	@$(BIN)/python -m surestart.spark.jars && $(BIN)/python -m surestart.spark.class_archive
	@touch $@

# The report's test opens it in a real browser; where Debian's cannot be installed, that test skips and says so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    { echo "setup: installing chromium for the report's test" >&2; \
	      apt-get update -qq >/dev/null 2>&1; apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; } || \
	    echo "setup: no chromium here; the report's browser test will skip" >&2; }
