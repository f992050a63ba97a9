# SPDX-License-Identifier: Apache-2.0
#
# The short way in; CMake does the work. `make help` lists the targets.

JOBS  ?= $(shell nproc)
# Random simulations in `check` (plain and sanitized build) and in `check-deep`.
SEEDS ?= 100000
SEEDS_DEBUG ?= 1000
SEEDS_DEEP ?= 1000000
# Executions of each fuzzer in `check-deep`.
FUZZ_RUNS ?= 10000000
HOURS ?= 1
# Of each part of `soak` with real processes; 0: none.
MINUTES ?= 15
PREFIX ?= /usr/local

RELEASE = build/release

.PHONY: all run check check-deep soak mutants compare figures deps release debug clean install deb help
.DEFAULT_GOAL = all

all: release

help:
	@echo 'make             the packages that are missing, then build/release'
	@echo 'make run         build, then the tour: a cluster, all services, four deaths, a healing'
	@echo 'make check       everything that must hold before a commit (9 min on 2 cores)'
	@echo 'make check-deep  all sanitizers, compilers, fuzzers, a million seeds (hours)'
	@echo 'make soak        chaos, overload and loss with real processes, MINUTES=15 each; simulate for HOURS=1'
	@echo 'make mutants     which test catches which deliberate bug'
	@echo 'make compare     other systems beside this one, in one run (50 min; PEERS="--short serf")'
	@echo 'make figures     models, simulations and measurements: CSV, SVG, one page (5 min)'
	@echo 'make debug       build/debug, with AddressSanitizer and UBSan'
	@echo 'make install     into PREFIX=/usr/local (DESTDIR is honoured)'
	@echo 'make deb         Debian packages in build/deb'
	@echo 'make deps        only the packages; make clean removes build/'

deps:
	@scripts/deps build

# Ninja looks after everything but the presets, and packages that came since.
build/%/build.ninja: CMakePresets.json $(wildcard /var/lib/dpkg/status)
	cmake --preset $*
	@touch $@

release: deps
	@$(MAKE) -s --no-print-directory build/release/build.ninja
	cmake --build build/release -j$(JOBS)

debug: deps
	@$(MAKE) -s --no-print-directory build/debug/build.ninja
	cmake --build build/debug -j$(JOBS)

run: release
	@$(RELEASE)/coppice demo

check:
	@scripts/deps check
	@JOBS=$(JOBS) SEEDS=$(SEEDS) SEEDS_DEBUG=$(SEEDS_DEBUG) scripts/check

check-deep:
	@scripts/deps deep
	@JOBS=$(JOBS) SEEDS=$(SEEDS_DEEP) FUZZ_RUNS=$(FUZZ_RUNS) scripts/check-deep

soak: release
	@scripts/deps soak || true
	@JOBS=$(JOBS) HOURS=$(HOURS) MINUTES=$(MINUTES) COPPICE=$(RELEASE)/coppice scripts/soak

mutants:
	@scripts/deps check
	@JOBS=$(JOBS) scripts/mutants

# A peer that is not there is a line that says so.
compare: release
	@scripts/deps compare || true
	@COPPICE=$(RELEASE)/coppice scripts/compare $(PEERS)

# Without gnuplot there are numbers and no pictures, which is said.
figures: release
	@scripts/deps figures || true
	@COPPICE=$(RELEASE)/coppice scripts/figures

install: release
	cmake --install build/release --prefix $(PREFIX)

# A build of its own, because Debian keeps libraries in a folder for each architecture.
deb:
	@scripts/deps deb
	cmake --preset release -B build/deb-build -DCMAKE_INSTALL_PREFIX=/usr -DCOPPICE_TESTS=OFF
	cmake --build build/deb-build -j$(JOBS)
	@scripts/deb build/deb-build build/deb

clean:
	rm -rf build
