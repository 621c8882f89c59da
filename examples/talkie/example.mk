.PHONY: run-talkie run-talkie-publisher run-talkie-reader talkie-dashboard talkie-dead talkie-queries

run-talkie: ## Talkie: the chat with its outbox module, until Ctrl-C
	@examples/talkie/run app

run-talkie-publisher: ## Talkie: the outbox module alone, beside or instead of the other
	@TALKIE_LISTEN=127.0.0.1:8087 examples/talkie/run publisher

run-talkie-reader: ## Talkie: somebody who reads the chat from Kafka, each message once
	@examples/talkie/run reader

talkie-dashboard: ## Talkie: postrider's dashboard on the outbox, at http://127.0.0.1:8088
	@examples/talkie/run dashboard

talkie-dead: ## Talkie: dead letters (make talkie-dead DO="resend --all")
	@examples/talkie/run dead $(or $(DO),inspect)

talkie-queries: ## Talkie: the two operational queries
	@examples/talkie/run queries
