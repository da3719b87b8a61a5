# What people do with the project, one word each. `make` alone lists them.

CARGO ?= cargo
OUT ?= results/demo
BUILT = $(or $(CARGO_TARGET_DIR),target)/release/weftline

# Where `make install` puts things, below DESTDIR if that is given.
PREFIX ?= /usr/local
DESTDIR ?=
PACKAGE = target/package

.PHONY: help demo build tools test test-python test-random test-lab figures lint semver doc bench install generated deb dist dist-test

help:
	@echo "make demo    two radio links at the sum of their rates, beside the kernel's TCP and MPTCP"
	@echo "make test    every test that any machine passes; as root the lab's too"
	@echo "make test-python  the Python package: built, tested, its types checked (needs Python 3.11)"
	@echo "make figures  the figures of the papers beside ours, in results/figures-quick; SIZE=full: docs/gallery.md"
	@echo "make test-random  properties with new inputs, as many as CASES says"
	@echo "make test-lab  as root, on a quiet machine: the tests with a bound of time"
	@echo "make lint    format, lints, documentation, licences"
	@echo "make doc     one site in target/site: the documents, and the libraries' pages"
	@echo "make bench   what the hot paths cost"
	@echo "make install program, manual pages, completions, units (PREFIX=$(PREFIX), DESTDIR)"
	@echo "make semver  whether the libraries' interfaces have changed in a way that breaks their users"
	@echo "make dist    what a release consists of, in target/dist: static programs, packages, images"
	@echo "make dist-test  as root: those packages installed, started, upgraded and removed"
	@echo "make deb     a Debian package of this machine's build, in target/debian (needs cargo-deb)"

demo: build
	./scripts/demo $(OUT)

build:
	@echo "Building weftline (the first time takes some minutes)..."
	$(CARGO) build --release --locked -p weftline-cli $$(./scripts/features)
	@$(MAKE) --no-print-directory generated

# Manual pages and completions, which the program makes itself.
generated:
	rm -rf $(PACKAGE)
	mkdir -p $(PACKAGE)
	$(BUILT) generate man $(PACKAGE)/man
	$(BUILT) generate completions bash > $(PACKAGE)/weftline.bash
	$(BUILT) generate completions zsh > $(PACKAGE)/_weftline
	$(BUILT) generate completions fish > $(PACKAGE)/weftline.fish

# With sudo it installs what its user has built: root may have no compiler, and what it builds would
# be its own.
install:
	@if [ -n "$$SUDO_USER" ]; then \
	    test -x $(BUILT) && test -d $(PACKAGE)/man || { \
	        echo "nothing is built yet; first, without sudo: make build"; exit 1; }; \
	else $(MAKE) --no-print-directory build; fi
	install -Dm755 $(BUILT) $(DESTDIR)$(PREFIX)/bin/weftline
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/lib/systemd/system \
	    $(DESTDIR)$(PREFIX)/share/doc/weftline/examples
	install -m644 $(PACKAGE)/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -Dm644 $(PACKAGE)/weftline.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/weftline
	install -Dm644 $(PACKAGE)/_weftline $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_weftline
	install -Dm644 $(PACKAGE)/weftline.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/weftline.fish
	install -m644 packaging/examples/* $(DESTDIR)$(PREFIX)/share/doc/weftline/examples
	for unit in packaging/systemd/*; do \
	    sed 's|/usr/bin/weftline|$(PREFIX)/bin/weftline|' $$unit \
	        > $(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/} || exit 1; \
	done

deb: build
	@command -v cargo-deb >/dev/null || { \
	    echo "cargo-deb is not installed: cargo install --locked cargo-deb"; exit 1; }
	./scripts/packaged-docs $(PACKAGE)
	$(CARGO) deb -p weftline-cli --no-build --strip --output target/debian/

# Reproducible: the packages of a release, for each processor whose standard library is installed.
dist:
	./scripts/dist

dist-test:
	./scripts/dist-test

# Programs that the lab runs, installed where apt can, named where not.
tools:
	./scripts/tools

test: tools
	./scripts/test

test-python:
	./scripts/python

figures:
	./scripts/figures $(or $(SIZE),quick)

# New inputs for the properties; a failure names the line that repeats it.
test-random:
	CASES=$${CASES:-1000} ./scripts/test --lib

test-lab: tools
	./scripts/test-lab

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked $$(./scripts/features) -- -D warnings
	$(CARGO) clippy --package weftline-cli --all-targets --locked --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked $$(./scripts/features)
	./scripts/pure
	./scripts/cycles
	./scripts/web --check
	@if command -v cargo-deny >/dev/null; then cargo deny check; \
	else echo "cargo-deny is not installed: licences not checked (cargo install cargo-deny)"; fi

semver:
	./scripts/semver

doc:
	$(CARGO) doc --workspace --no-deps --locked
	./scripts/book

bench:
	$(CARGO) bench --workspace --locked
