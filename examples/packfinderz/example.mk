# PackFinderz. Without `make`: the same commands by hand.

# Where the publisher is, for those who have built it elsewhere.
OUTBOX_PUBLISHER ?= cargo run --quiet -p example-packfinderz --bin outbox-publisher

.PHONY: run-packfinderz run-outbox-publisher run-outbox-cleanup build-outbox-publisher build-packfinderz packfinderz-registry

run-packfinderz: ## PackFinderz: servers, tables, api, publisher, consumer and cleanup, until Ctrl-C
	@examples/packfinderz/run

run-outbox-publisher: ## PackFinderz: the publisher, as the PACKFINDERZ_ variables say
	@exec $(OUTBOX_PUBLISHER)

run-outbox-cleanup: ## PackFinderz: deletes what was published more than 30 days ago, as the PACKFINDERZ_ variables say
	@exec cargo run --quiet -p example-packfinderz --bin outbox-cleanup

build-outbox-publisher: ## PackFinderz: makes bin/outbox-publisher
	cargo build --release -p example-packfinderz --bin outbox-publisher
	install -D -t bin "$${CARGO_TARGET_DIR:-target}/release/outbox-publisher"

build-packfinderz: ## PackFinderz: makes all its programs in bin, which the Procfile names
	cargo build --release -p example-packfinderz --bins
	cd "$${CARGO_TARGET_DIR:-target}/release" && install -D -t "$(CURDIR)/bin" api check-processed compliance-consumer migrate outbox-cleanup outbox-publisher

packfinderz-registry: ## PackFinderz: writes registry.toml and the routes of relay.toml from src/catalogue.rs and src/payloads.rs
	cargo run --quiet -p example-packfinderz --bin registry >examples/packfinderz/registry.toml.new
	mv examples/packfinderz/registry.toml.new examples/packfinderz/registry.toml
	{ sed '/^# .*`make packfinderz-registry`/q' examples/packfinderz/relay.toml; \
	  cargo run --quiet -p example-packfinderz --bin registry routes; } >examples/packfinderz/relay.toml.new
	mv examples/packfinderz/relay.toml.new examples/packfinderz/relay.toml
