# The front door. Everything happens in .venv; nothing is needed beyond Python 3.11 and make.
PYTHON ?= python3
PIP    = .venv/bin/python -m pip --disable-pip-version-check
PYTEST = .venv/bin/python -m pytest
WORKERS = -n 2 --dist loadgroup
# Tests that mostly wait for processes: three of them keep two cores busy.
WAITING = -n 3 --dist loadgroup
STAMP  = .venv/.installed
CORES  = $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
SEEDS ?= 1000
ROUNDS ?= 200
MUTANT_SEEDS ?= 100
FROM  ?= $(shell date +%s)

# Without compiled modules each of a thousand processes, and each worker of the tests, would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rest test-all nightly interop kafka-tests client-suites clients software soak spec pages site wheel check format lint types layers fast bench seeds ledger crash-points mutants spark-versions lessons lesson-sheet lesson-pictures token-mutants clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## make .venv with the understudy command in it

$(STAMP): pyproject.toml constraints.txt
	@echo "installing into .venv: Spark, a Java runtime, the tools; the first time this downloads about 0.7 GB …"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv .venv
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

demo: setup  ## kill the controller of a real cluster and watch another take over (ARGS=--fast for a shorter one)
	@.venv/bin/understudy demo $(ARGS)

test: setup  ## what is quick, and a real run of each kind: six minutes on two cores
	$(PYTEST) -m '(not long or representative) and not interop' $(WORKERS) $(ARGS)

test-rest: setup  ## what `make test` leaves out of `make test-all`
	$(PYTEST) -m 'long and not representative and not interop' $(WAITING) $(ARGS)

test-all: setup  ## all tests but those beside Apache Kafka (`make interop`)
	$(PYTEST) $(WORKERS) $(ARGS)

nightly: setup  ## everything, with the whole of each search (hours; CONTRIBUTING.md lists them)
	NIGHTLY=1 $(PYTEST) $(WORKERS) $(ARGS)
	.venv/bin/python -m devtools.spark_versions
	NIGHTLY=1 KAFKA_TESTS=all CLIENT_SUITES=all $(PYTEST) tests/interop tests/contracts tests/foundation/zk tests/understudy/history/storage -m interop $(WORKERS) $(ARGS)

interop: setup  ## a real Apache Kafka 3.9.1 as the judge, and ZooKeeper 3.4 to 3.8; Maven fetches them (REQUIRE_MAVEN=1: fail where it cannot)
	$(PYTEST) tests/interop tests/contracts tests/understudy/history/storage -m interop $(WAITING) $(ARGS)

kafka-tests: setup  ## the integration tests of Apache Kafka 3.9.1 against our brokers, all of them (two hours)
	KAFKA_TESTS=all $(PYTEST) tests/interop/test_kafkas_own_tests.py -m interop -n 2 $(ARGS)

client-suites: setup  ## the own tests of franz-go, sarama, librdkafka and kafka-python against our brokers (half an hour)
	CLIENT_SUITES=all $(PYTEST) tests/interop/test_client_suites.py -m interop -n 0 $(ARGS)

clients: setup  ## stock clients across seven faults, judged; writes docs/reference/clients.md (half an hour; ARGS='--client NAME')
	.venv/bin/python -m devtools.report_cards $(ARGS)

software: setup  ## Kafka Streams, Connect, Spark, Flink and more across killed brokers; writes docs/reference/software.md (half an hour; ARGS='--program NAME')
	.venv/bin/python -m devtools.software $(ARGS)

spark-versions: setup  ## the Spark tests beside each minor of Spark that we support, in environments of their own (ARGS='--only 3.5,4.3', ARGS=--quick)
	@.venv/bin/python -m devtools.spark_versions $(ARGS)

soak: setup  ## 200 rounds of faults under a running producer: no acknowledged record may be lost (ROUNDS=N)
	SOAK_ROUNDS=$(ROUNDS) $(PYTEST) tests/durability -n 0 -s $(ARGS)

fast: setup  ## the quick tests: one minute
	$(PYTEST) -m 'not slow and not docker and not interop' -n 2 --dist worksteal --hypothesis-profile quick $(ARGS)

spec: setup  ## which test stands for which behaviour of docs/reference/behaviours.md; fails where none does
	@.venv/bin/python -m devtools.behaviours

pages: setup  ## write the pages of docs/ that are made from the code
	@.venv/bin/python -m devtools.pages

site: setup  ## docs/ as a site with a search and all lessons, in build/site; fails if a link or an anchor leads nowhere
	@rm -rf build/site
	@.venv/bin/python -m sphinx --builder html --tag lessons --jobs auto --fresh-env --fail-on-warning --quiet \
	  --doctree-dir build/site-cache docs build/site
	@.venv/bin/understudy lesson --site build/site/lessons
	@echo "open file://$(CURDIR)/build/site/index.html"

format: setup
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

types: setup
	.venv/bin/mypy

layers: setup
	.venv/bin/lint-imports

check: setup  ## what a change must pass: format, lint, types, import contracts, behaviours, tests
	@for part in lint types layers spec test test-rest; do \
	  started=$$(date +%s); \
	  $(MAKE) --no-print-directory $$part || exit 1; \
	  echo "== $$part took $$(($$(date +%s) - started)) s"; \
	done

bench: setup  ## the benchmarks, as ratios measured in one run
	.venv/bin/python -m benchmarks $(ARGS)

seeds: setup  ## 1,000 new seeds, a simulated minute each; failed ones are shrunk and reported (SEEDS=N FROM=seed)
	@.venv/bin/understudy hunt --seeds $(SEEDS) --from $(FROM) --workers $(CORES) $(ARGS)

ledger: setup  ## the same, and a line about it in docs/inside/seed-ledger.md
	@.venv/bin/understudy hunt --seeds $(SEEDS) --from $(FROM) --workers $(CORES) --ledger docs/inside/seed-ledger.md $(ARGS)

crash-points: setup  ## inject five faults into the controller at each named point of its procedures; print the table
	@.venv/bin/understudy crash-points --workers $(CORES) $(ARGS)

mutants: setup  ## switch each fence and each historic fix off: which check notices, after how many seeds (MUTANT_SEEDS=N)
	@.venv/bin/understudy mutants --seeds $(MUTANT_SEEDS) --workers $(CORES) --write docs/inside/reliability.md $(ARGS)

wheel: setup  ## build the wheel into dist/, and use it in an environment of its own (PROVE=/path/to/another/python)
	.venv/bin/python -m devtools.prove_wheel $(if $(PROVE),--python $(PROVE)) $(ARGS)

lessons: setup  ## simulate all lessons again, and keep their runs for `understudy lesson --recorded` (three minutes)
	@for name in $$(.venv/bin/understudy lesson | awk '{print $$2}'); do \
	  .venv/bin/understudy lesson $$name --record || exit 1; \
	done

lesson-sheet: setup  ## one picture of all steps of each lesson, in build/lesson-sheets (ARGS='zombie --size 390x844')
	@.venv/bin/python -m devtools.lesson_sheet $(ARGS)

lesson-pictures: setup  ## write the pictures of the page in docs/pictures
	@.venv/bin/python -m devtools.lesson_pictures

token-mutants: setup  ## change one token of the controller or of replication at a time: which tests notice? (hours)
	@nice -n 19 .venv/bin/python -m devtools.token_mutants --workers $(CORES) $(ARGS)

clean:  ## forget .venv and every cache
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
