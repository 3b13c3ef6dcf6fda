# weir: everything a person or a CI types. `make help` lists it.
# Debian with a Rust toolchain is all that is needed; `deps` installs the rest.
SHELL := /bin/bash
CARGO ?= cargo
PREFIX ?= /usr/local
PROFILE ?= release
BIN_release := target/release
BIN_dev := target/debug
BIN := $(BIN_$(PROFILE))
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PROVE_JOBS ?= 2

.PHONY: help demo run check soak soak-broken soak-chaos fuzz bench install deps build debug fmt clippy doc unit prove clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: build ## build, run real jobs in a private instance, show what happens, end
	@WEIR_BIN=$(CURDIR)/$(BIN) bash demo/demo.sh

run: build ## build and leave an instance in the foreground
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/weir start

build: deps-build ## the five programs, optimised
	@$(CARGO) build --locked --profile $(PROFILE) --bins

debug:
	@$(CARGO) build --locked --workspace --bins

check: deps fmt clippy doc unit prove ## all that CI runs
	@echo "check: all passed"

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet

unit: debug
	$(CARGO) test --locked --workspace --quiet

prove: debug ## the shell tests, each in an instance of its own
	WEIR_BIN=$(CURDIR)/target/debug prove -j$(PROVE_JOBS) --timer --exec 'timeout 600 sh' t/

# the long forms of the chaos tests; each file says what its variables mean
# make soak SEEDS=10000, or MINUTES=30; FROM=N begins at another seed
FROM ?= 1
SEEDS ?= 10000
soak: ## the simulator over many seeds (SEEDS=n, or MINUTES=n): job-manager, job-info and an engine in one thread, everything breaking
	$(CARGO) run --locked --release --quiet -p sim -- $(if $(MINUTES),--seeds $(FROM).. --minutes $(MINUTES),--seeds $(FROM)..$(shell expr $(FROM) + $(SEEDS) - 1)) $(SOAK_ARGS)

soak-broken: ## the same with the cores broken on purpose in four ways: each must be noticed within 100 seeds
	$(CARGO) test --locked -p sim --features sabotage --test broken

soak-chaos: debug ## kills, broken links, full disks and stopped readers, many times over (half an hour)
	WEIR_BIN=$(CURDIR)/target/debug WEIR_TEST_TIMEOUT=300 WEIR_CHAOS_ROUNDS=50 WEIR_CHAOS_RESUMES=50 WEIR_CHAOS_LINKS=500 WEIR_CHAOS_EVENTS=500000 \
	WEIR_KILL_ROUNDS=50 WEIR_KILL_COUNT=200 WEIR_SLOW_JOBS=200000 \
	  prove --timer --exec 'timeout 3600 sh' t/t8*.t t/t5130-kill-all.t t/t5500-slow-client.t

fuzz: ## each fuzzer for MINUTES=10, one after another; needs a nightly toolchain, installs cargo-fuzz
	@bash fuzz/run $(or $(MINUTES),10) $(TARGETS)

bench: build ## every benchmark, as one table
	@WEIR_BIN=$(CURDIR)/$(BIN) $(BIN)/weir-bench $(BENCH_ARGS)

install: build ## programs into $(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(addprefix $(BIN)/,weir weir-job-manager weir-job-info weir-job-runner weir-bench) $(DESTDIR)$(PREFIX)/bin

# what the build needs: a C compiler for SQLite, which a Rust toolchain's linker implies
deps-build:
	@command -v cc >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq gcc libc6-dev; }

# what the tests need
deps: deps-build ## install what the tests need (Debian packages; published clients into target/)
	@bash .ci/deps
	@bash .ci/clients

clean: ## remove what was built
	$(CARGO) clean
