# PackFinderz. Without `make`: the same commands by hand.

# Where the publisher is, for those who have built it elsewhere.
OUTBOX_PUBLISHER ?= cargo run --quiet -p example-packfinderz --bin outbox-publisher

.PHONY: run-packfinderz run-outbox-publisher build-outbox-publisher build-packfinderz

run-packfinderz: ## PackFinderz: servers, tables, api, publisher and consumer, until Ctrl-C
	@examples/packfinderz/run

run-outbox-publisher: ## PackFinderz: the publisher, as the PACKFINDERZ_ variables say
	@exec $(OUTBOX_PUBLISHER)

build-outbox-publisher: ## PackFinderz: makes bin/outbox-publisher
	cargo build --release -p example-packfinderz --bin outbox-publisher
	install -D -t bin "$${CARGO_TARGET_DIR:-target}/release/outbox-publisher"

build-packfinderz: ## PackFinderz: makes all its programs in bin, which the Procfile names
	cargo build --release -p example-packfinderz --bins
	cd "$${CARGO_TARGET_DIR:-target}/release" && install -D -t "$(CURDIR)/bin" api compliance-consumer migrate outbox-publisher
