SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
SECS ?= 60

# For recipes that talk to the services: puts their addresses into the recipe's environment.
with_services = environment=$$(scripts/services up); eval "$$environment";

# The bench measures what is shipped; it starts servers of its own, from what this installs.
bench_programs = scripts/services install; cargo build --profile dist -p postrider-cli; cargo build --release -p postrider-bench

.PHONY: help demo test test-long check build release docs fmt services clean-services bench bench-peers bench-report bench-drain bench-consume torture

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## see it at work, with nothing to install; make demo ARGS="--rate 10" passes options on
	@cargo run -p postrider-cli -- demo $(ARGS)

test: ## all that must pass: starts the services, then fmt, clippy, build and every test
	@scripts/test

test-long: ## the tests that are shorter in make test, in full: a minute without a broker
	@$(with_services) scripts/test long

check: ## formatting and lints only
	@scripts/test install fmt clippy

build: ## the workspace's programs and tests
	@scripts/test install build

release: ## the program to ship, with every store and broker: target/dist/postrider
	cargo build --locked --profile dist -p postrider-cli
	@ls -lh target/dist/postrider; echo "shared libraries:"; ldd target/dist/postrider | awk '{ print "  " $$1 }'

docs: ## write docs/configuration.md from the code
	POSTRIDER_BLESS=1 cargo test --quiet -p postrider-cli --all-features --bin postrider reference

fmt: ## format the code
	cargo fmt --all

services: ## install and start Postgres, Redis, Kafka and Pub/Sub; prints their addresses
	@scripts/services up

clean-services: ## stop the services
	@scripts/services down

bench: ## our relays on servers of their own, minutes; make bench ARGS="--phases drain --rounds 5" passes options on
	@$(bench_programs)
	@target/release/postrider-bench run --rounds 3 --records 200000 --secs 10 --held-secs 20 --held-clean-secs 10 --kill-secs 15 --outage-secs 15 --idle-secs 15 --stuck-secs 15 $(ARGS)

bench-peers: ## ours beside Debezium, Watermill and oxide-outbox, hours; takes ARGS too
	@$(bench_programs)
	@target/release/postrider-bench run --peers $(ARGS)

bench-report: ## write docs/benchmarks.md from results: make bench-report FILES="target/bench/results/….json"
	@cargo run --release -p postrider-bench -- report $(FILES)

bench-drain: ## how fast a backlog drains by hold and lease, beside small batches
	@$(with_services) cargo run --release -p postrider-bench -- drain

bench-consume: ## how fast a consumer applies events, beside a bare loop of inserts
	@$(with_services) cargo run --release -p postrider-bench -- consume

torture: ## relays killed at random for SECS seconds (make torture SECS=600)
	@$(with_services) POSTRIDER_TORTURE_SECS=$(SECS) cargo test -p postrider-cli torture -- --nocapture

# Each example brings the commands that its README names.
-include examples/*/example.mk
