# The developer's short-cuts. Everything that gates a change is in .ci/run, which needs nothing but Go and git.
.DEFAULT_GOAL := help
BIN ?= bin

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the command into bin/
	go build -o $(BIN)/ ./cmd/stalemate

.PHONY: test
test: ## Run all tests
	go test ./...

.PHONY: determinism
determinism: ## Run 1,000 seeds of each scenario twice and compare their history hashes
	SIM_RUNS=1000 go test ./scenarios/... -run Determinism -timeout 60m

.PHONY: traces
traces: ## Play the recordings of real controllers in 1,000 random orders each
	SIM_RUNS=1000 go test ./racer -run 'TestTrace$$|TestRollout$$' -timeout 60m

.PHONY: quiet
quiet: ## Run the correct reconcilers 100,000 times, with random orders and faults
	SIM_RUNS=100000 go test ./scenarios/reference -run Quiet -timeout 5h

.PHONY: nightly
nightly: build ## Explore all scenarios for an hour, as CI does for a night
	$(BIN)/stalemate fuzz scenarios --for 1h --corpus corpus --out findings

.PHONY: bench
bench: ## Run all benchmarks
	go test -run '^$$' -bench . ./...

.PHONY: lint
lint: ## Run the linters, at the version that CI pins
	.ci/run lint

.PHONY: goldens
goldens: ## Rewrite the golden files; read the difference before you commit it
	SIM_UPDATE=1 go test ./scenarios/... # the track record first, which the README shows
	SIM_UPDATE=1 go test ./...

.PHONY: ci
ci: ## Run all that CI runs
	.ci/run
