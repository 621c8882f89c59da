.PHONY: run-gopipe

run-gopipe: ## gopipe: process-orders, until Ctrl-C (make run-gopipe BROKER=kafka PUBLISH=source)
	@BROKER=$(or $(BROKER),memory) PUBLISH=$(or $(PUBLISH),relay) examples/gopipe/run
