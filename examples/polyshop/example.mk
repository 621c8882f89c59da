.PHONY: run-polyshop run-polyshop-mixed setup-polyshop

run-polyshop: ## the PolyShop example, every service in Rust; Ctrl-C stops it
	@examples/polyshop/run

run-polyshop-mixed: ## the same with services in Java, Node.js and Python, and Jaeger
	@examples/polyshop/run mixed --jaeger

setup-polyshop: ## fetch what the services in other languages need
	@examples/polyshop/setup
