# What people do with the project, one word each. `make` alone lists them.

CARGO ?= cargo
OUT ?= results/demo

.PHONY: help demo build tools test lint doc bench

help:
	@echo "make demo    two radio links at the sum of their rates, beside the kernel's TCP and MPTCP"
	@echo "make test    every test; as root the lab's too"
	@echo "make lint    format, lints, documentation, licences"
	@echo "make doc     the API documentation"
	@echo "make bench   what the hot paths cost"

demo: tools build
	./scripts/demo $(OUT)

build:
	@echo "Building weftline (the first time takes some minutes)..."
	$(CARGO) build --release --locked -p weftline-cli

# Programs that the lab runs, installed where apt can, named where not.
tools:
	./scripts/tools

test: tools
	./scripts/test

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	./scripts/pure
	@if command -v cargo-deny >/dev/null; then cargo deny check; \
	else echo "cargo-deny is not installed: licences not checked (cargo install cargo-deny)"; fi

doc:
	$(CARGO) doc --workspace --no-deps --locked

bench:
	$(CARGO) bench --workspace --locked
