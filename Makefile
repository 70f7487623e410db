# Everything a developer does, by name. `make help` lists it. Nothing but Python 3.11 or newer and make is needed:
# the environment in .venv is created on first use, from locked versions.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
SPARK_STAMP := $(VENV)/.ready-spark
PIPELINES_STAMP := $(VENV)/.ready-pipelines
DOCS_STAMP := $(VENV)/.ready-docs
COVERAGE_STAMP := $(VENV)/.ready-coverage
FUZZ_STAMP := $(VENV)/.ready-fuzz
MUTANTS_STAMP := $(VENV)/.ready-mutants
SPARK ?= yes
GROUPS ?= requests consumer share rest
WORKERS ?= 2
# most tests wait more than they compute: twice as many workers as cores
TEST_WORKERS ?= 4
SUITE ?= trixie
SYSTEM ?= macos
SECONDS ?= 300
SEEDS ?= 1000
IMAGES ?= 10000
PACKAGE ?= queues

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- set-up -------------------------------------------------------------------------------------------------------------

.PHONY: venv
venv: $(STAMP) ## Create the environment in .venv (every other target does it when needed)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Penstock needs Python 3.11 or newer; '$(PYTHON)' is older or missing. Try: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python's venv module is incomplete. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Installing the locked dependencies into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

$(SPARK_STAMP): requirements/spark.txt $(STAMP)
	@echo "Installing Spark, a Java for it and what the pipeline needs into $(VENV): about 1.1 GB ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/spark.txt
	@touch $(SPARK_STAMP)

$(PIPELINES_STAMP): requirements/pipelines.txt $(SPARK_STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/pipelines.txt
	@touch $(PIPELINES_STAMP)

$(DOCS_STAMP): requirements/docs.txt $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $(DOCS_STAMP)

$(COVERAGE_STAMP): requirements/coverage.txt $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/coverage.txt
	@touch $(COVERAGE_STAMP)

$(FUZZ_STAMP): requirements/fuzz.txt $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@touch $(FUZZ_STAMP)

$(MUTANTS_STAMP): requirements/mutants.txt $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/mutants.txt
	@touch $(MUTANTS_STAMP)

.PHONY: kcat
kcat: $(STAMP)
	@requirements/kcat $(VENV)

.PHONY: promtool
promtool: $(STAMP)
	@requirements/promtool $(VENV)

.PHONY: mermaid
mermaid: $(STAMP)
	@requirements/mermaid $(VENV)

.PHONY: lock
lock: $(STAMP) ## Resolve the locked versions in requirements/ anew
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host \
		--no-emit-find-links --no-header --output-file requirements/dev.txt pyproject.toml requirements/dev.in
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host \
		--no-emit-find-links --no-header --extra spark --constraint requirements/dev.txt \
		--output-file requirements/spark.txt pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --generate-hashes --no-emit-index-url --no-emit-trusted-host \
		--no-emit-find-links --no-header --constraint requirements/dev.txt --constraint requirements/spark.txt \
		--output-file requirements/pipelines.txt requirements/pipelines.in
	for tools in docs coverage fuzz mutants; do $(BIN)/pip-compile --quiet --upgrade --strip-extras --generate-hashes \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --constraint requirements/dev.txt \
		--output-file requirements/$$tools.txt requirements/$$tools.in || exit 1; done

# -- see it work --------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(STAMP) $(if $(filter yes,$(SPARK)),$(SPARK_STAMP)) ## A stream, a queue, a transformation, a lake, all checked (SPARK=no: a small download)
	@$(BIN)/python -m examples.demo $(if $(filter yes,$(SPARK)),,--without-spark)

.PHONY: cluster
cluster: $(STAMP) ## Three brokers over PostgreSQL and an S3 server under load, one of them killed, and what came of it
	@$(BIN)/python -m examples.cluster $(OPTIONS)

# -- checks -------------------------------------------------------------------------------------------------------------

.PHONY: test
test: $(DOCS_STAMP) lint types imports kcat promtool ## Run every check and the whole default test suite
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n $(TEST_WORKERS)

.PHONY: lint
lint: $(STAMP) ## Check style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(STAMP) ## Check types (mypy --strict)
	$(BIN)/mypy

.PHONY: imports
imports: $(STAMP) ## Check who imports whom (import-linter)
	$(BIN)/lint-imports

.PHONY: fmt
fmt: $(STAMP) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(DOCS_STAMP) mermaid ## Build the docs as a site into build/site; a broken link or anchor is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m pytest tests/docs -n $(WORKERS)

.PHONY: screenshots
screenshots: $(STAMP) ## Photograph every page of the console into build/screenshots (needs chromium)
	$(BIN)/python -m tests.console.screenshots build/screenshots

.PHONY: coverage
coverage: $(COVERAGE_STAMP) ## Measure what the default tests reach (build/coverage); a module without tests is an error
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term --cov-report=html --cov-report=xml
	.ci/check-coverage build/coverage/coverage.xml

.PHONY: test-on
test-on: ## Run the default tests on the Python of SUITE=trixie, another Debian release (needs root, apt)
	.ci/test-on $(SUITE) make test

.PHONY: package
package: $(STAMP) ## Build the wheel and the sdist into dist, and use both in empty environments, with pip, uvx and pipx
	rm -rf dist
	$(BIN)/hatchling build
	PENSTOCK_DIST=dist $(BIN)/python -m pytest -m long tests/packaging/test_distributions.py

.PHONY: newcomer
newcomer: $(STAMP) ## Install the wheel on a bare Debian and do the tutorials, with times (SUITE=trixie; needs root, apt)
	$(BIN)/python -m tests.packaging.newcomer --suite $(SUITE)

# of Windows only the client and the fixture are promised
PORTABLE_windows := tests/portability tests/testing tests/client

.PHONY: container
container: ## Build the image over a Debian of our own and run it as compose files do (needs root, buildah, debootstrap)
	PENSTOCK_CONTAINER=required $(MAKE) --no-print-directory $(STAMP)
	PENSTOCK_CONTAINER=required $(BIN)/python -m pytest -m long tests/packaging/test_container.py

.PHONY: test-portable
test-portable: $(STAMP) ## Run the tests with what SYSTEM=macos (or windows) has, the ways of Linux taken away
	PYTHONPATH=tests/portability PENSTOCK_TEST_WITHOUT=$(SYSTEM) $(BIN)/python -m pytest -n $(WORKERS) $(PORTABLE_$(SYSTEM))

# -- longer runs --------------------------------------------------------------------------------------------------------

.PHONY: bench
bench: $(STAMP) ## Measure beside Apache Kafka (needs java, mvn, cc, librdkafka-dev, libmimalloc-dev)
	$(BIN)/python -m bench.run

.PHONY: conformance
conformance: $(STAMP) ## Send the same requests to Apache Kafka and to Penstock and compare (needs java, mvn)
	$(BIN)/python -m tests.conformance

.PHONY: java
java: $(STAMP) ## Apache's Java client, Kafka Streams and command-line tools against Penstock (needs java, javac, mvn)
	$(BIN)/python -m pytest -m java

.PHONY: kafka-tests
kafka-tests: $(STAMP) ## Apache Kafka's own tests against Penstock (needs java, javac, mvn; GROUPS="requests share", OPTIONS=--resume)
	$(BIN)/python -m tests.kafka_tests --workers $(WORKERS) $(OPTIONS) $(GROUPS)

.PHONY: spark
spark: $(PIPELINES_STAMP) ## The pipelines on a real Spark, with broker processes that are killed
	$(BIN)/python -m pytest -m spark

# The same judges on the other engines. `make -k engines` goes on after a failure.
ENGINES := engine-answers engine-clients engine-kafka-tests engine-cluster engine-brokers engine-spark
# What clients notice of several brokers; Kafka's other tests send their requests to one broker, whoever leads.
CLUSTER_TESTS ?= consumer share TransactionsExpirationTest TransactionsWithMaxInFlightOneTest AdminFenceProducersTest \
	ProducerIdExpirationTest ProducerIntegrationTest

.PHONY: engines $(ENGINES)
engines: $(ENGINES) ## The judges on brokers over PostgreSQL and an object store, three of them and --brokers 2 (needs java, javac, mvn)

engine-answers: $(STAMP)
	$(BIN)/python -m tests.engine objects $(BIN)/python -m tests.conformance --recorded

engine-clients: $(STAMP) kcat
	$(BIN)/python -m tests.engine objects $(BIN)/python -m pytest tests/client tests/clients tests/queues \
		tests/transactions -n $(WORKERS)

engine-kafka-tests: $(STAMP)
	$(BIN)/python -m tests.engine objects $(MAKE) kafka-tests

engine-cluster: $(STAMP)
	$(BIN)/python -m tests.engine cluster $(MAKE) kafka-tests GROUPS="$(CLUSTER_TESTS)"

engine-brokers: $(STAMP)
	PENSTOCK_BROKERS=2 $(MAKE) kafka-tests GROUPS="consumer share"

engine-spark: $(PIPELINES_STAMP)
	$(BIN)/python -m tests.engine objects $(BIN)/python -m pytest tests/spark -m spark

.PHONY: soak
soak: $(SPARK_STAMP) ## Long crash, chaos and load runs; Spark takes part in the storm
	$(BIN)/python -m pytest -m long --ignore=tests/fuzz

.PHONY: simulate
simulate: $(STAMP) ## Run the simulated world with SEEDS=1000 of every scenario (OPTIONS="--scenario streams --seed 7")
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --workers $(WORKERS) $(OPTIONS)

.PHONY: images
images: $(STAMP) ## Open IMAGES=10000 images of a data folder as power cuts leave it, and look for what was promised
	PENSTOCK_IMAGES=$(IMAGES) $(BIN)/python -m pytest tests/images -m long

.PHONY: fuzz
fuzz: $(FUZZ_STAMP) ## Fuzz the decoders, with and without coverage, for SECONDS=300 each
	$(BIN)/python -m tests.fuzz.learn --seconds $(SECONDS)
	PENSTOCK_FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/fuzz -m long

.PHONY: mutants
mutants: $(MUTANTS_STAMP) ## Change PACKAGE=queues in thousands of small ways, for SECONDS=300, and list what no test finds
	$(BIN)/python -m tests.mutation $(PACKAGE) --seconds $(SECONDS) --workers $(WORKERS) $(OPTIONS)

.PHONY: clean
clean: ## Remove the environment, caches and build results
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist bench/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
