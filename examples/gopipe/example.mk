.PHONY: run-gopipe

run-gopipe: ## gopipe: process-orders, until Ctrl-C (make run-gopipe BROKER=kafka)
	@BROKER=$(or $(BROKER),memory) examples/gopipe/run
