# Chainline: build, demo, tests. `make help` lists the goals.

CARGO ?= cargo
BIN := target/release/chainline

.PHONY: help deps build demo test bench bench-nfs lint fuzz docs clean

help: ## this list
	@echo "Chainline runs chains of network functions. Set up: make demo; whole test suite: make test."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Tests on real captures and tables read them from the folder that CHAINLINE_DATA names."

deps: ## install with apt what is missing (as root; else say what)
	@scripts/deps.sh

build: deps ## release build: target/release/chainline
	$(CARGO) build --release --locked --bin chainline

demo: build ## real packets through a chain, live; without root the committed capture
	@scripts/demo.sh $(BIN)

test: ## everything: build, formats, lints, tests, references, licences, a short fuzz run
	@scripts/deps.sh --test
	@scripts/test.sh

bench: build ## how fast it is here: target/bench/results.json; BENCH=--quick for a look
	@scripts/bench.sh $(BIN) $(BENCH)

bench-nfs: build ## rates of each NF over its state: target/bench/nfs.json, nfs.html; BENCH=--quick
	$(CARGO) build --release --locked --quiet -p chainline-bench
	@target/release/bench-nfs --program $(BIN) $(BENCH)

lint: deps ## formats and clippy alone
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fuzz: deps ## each fuzz target for a minute
	@scripts/fuzz.sh 60

docs: deps ## write the generated references anew (make test checks them), and the API documentation
	UPDATE=1 $(CARGO) test --locked -p chainline-chain --test files
	UPDATE=1 $(CARGO) test --locked -p chainline-nf-abi --test header
	$(CARGO) doc --workspace --no-deps --locked

clean: ## remove what was built
	$(CARGO) clean
