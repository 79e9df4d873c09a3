# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# One command for each thing that a person wants to do here. All of them install what is missing first
# and need no network once everything is there.

BUILD := build
PREFIX ?= /usr/local
MINUTES ?= 60

.PHONY: help demo test soak check-coverage bench header abi sanitizers mutants build install bindings clean distclean

help:
	@echo 'make demo             five accidents with references, on the stock MLIR bindings and on ours'
	@echo 'make test             builds and tests everything'
	@echo 'make soak MINUTES=60  runs the random tests for as long as one likes'
	@echo 'make check-coverage   takes the checks of the bindings out, one by one, and sees whether the tests notice'
	@echo 'make sanitizers       the C++ tests, a stress and the bindings under sanitizers (needs a nightly Rust)'
	@echo 'make mutants          changes the core in a thousand ways, one by one, and sees whether the tests notice (hours)'
	@echo 'make bench            measures, and writes docs/benchmarks.md'
	@echo 'make build            the C library, static and shared, in $(BUILD)/cmake/lib'
	@echo 'make bindings         the MLIR Python bindings, $(BUILD)/bindings/{tracked,stock}-python'
	@echo 'make install PREFIX=/usr/local'
	@echo 'make header           include/lot/lot.h and mlir.h anew from src/ffi'
	@echo 'make abi              cpp-tests/abi/abi.txt, the list of the C interface, anew'
	@echo 'tools/fresh.sh 12|13  tries these commands on a bare Debian'
	@echo 'make clean            all that was built; make distclean: also what was downloaded'

# What a job needs is installed first, and no more than that.
setup-%:
	@tools/setup.sh $*

demo: bindings
	@python3 demo/run.py $(BUILD)/bindings

test: setup-tests
	@tools/test.sh

soak: setup-tests
	@python3 tools/soak.py $(MINUTES)

check-coverage: setup-tests
	@tools/build.sh python-tests
	@python3 tools/break-checks.py

bench: setup-tests bindings
	@python3 tools/bench/run.py

header: setup-library
	@LOT_WRITE_HEADERS=1 cargo test --quiet --locked --test header

sanitizers: setup-tests
	@tools/sanitizers.sh
	@tools/build.sh bindings
	@tools/sanitize-bindings.sh

mutants: setup-tests
	@tools/mutants.sh

abi: build
	@python3 tools/abi.py --write

build: setup-library
	@tools/build.sh library

bindings: setup-bindings
	@tools/build.sh bindings

install: build
	@cmake --install $(BUILD)/cmake --prefix "$(PREFIX)"

clean:
	rm -rf target
	if [ -d $(BUILD) ]; then find $(BUILD) -mindepth 1 -maxdepth 1 ! -name wheels -exec rm -rf {} +; fi

distclean: clean
	rm -rf $(BUILD)
