# The two commands of the README, and some more. Each installs what it needs.
.PHONY: demo test bench conformance install clean linker

PREFIX ?= /usr/local
# Emulated nodes take root.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Rust needs a linker before it can build even the task that installs packages.
linker:
	@command -v cc >/dev/null || { \
		echo "A C compiler is missing; running: apt-get install -y gcc libc6-dev"; \
		$(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq gcc libc6-dev >/dev/null; }

# The main job: unmodified MPI programs across an emulated cluster.
demo: linker
	cargo run --quiet --package xtask -- packages demo
	cargo build --release --quiet --package wiglaf-cli --package wiglaf-fabric
	$(SUDO) target/release/wiglaf demo

# All tests.
test: linker
	cargo run --quiet --package xtask -- packages test
	cargo run --quiet --package xtask -- test

# The whole set of benchmarks in at most 20 minutes, into bench/results/.
bench: linker
	cargo run --quiet --package xtask -- packages demo
	cargo build --release --quiet --package wiglaf-cli --package wiglaf-fabric
	$(SUDO) target/release/wiglaf bench all --minutes 20 --output bench/results

# The test suites of others, over Wiglaf and over TCP, into docs/conformance.md: those that fit half
# an hour, or with CONFORMANCE=all every one. libfabric's own tests are not packaged: FABTESTS is the
# folder where they are installed.
conformance: linker
	cargo run --quiet --package xtask -- conformance $(if $(FABTESTS),--fabtests $(FABTESTS)) \
		$(if $(filter all,$(CONFORMANCE)),--all)

# Command, provider, interposer, C library, header and dissector under PREFIX.
install:
	cargo build --release --package wiglaf-cli --package wiglaf-fabric --package wiglaf-logical \
		--package wiglaf-am --package wiglaf-files --package wiglaf-helper
	install -D -m 755 target/release/wiglaf $(DESTDIR)$(PREFIX)/bin/wiglaf
	install -D -m 644 target/release/libwiglaf_fabric.so $(DESTDIR)$(PREFIX)/lib/wiglaf/libwiglaf-fi.so
	install -d $(DESTDIR)$(PREFIX)/lib/wiglaf/wiglaf-libfabric
	ln -sf ../libwiglaf-fi.so $(DESTDIR)$(PREFIX)/lib/wiglaf/wiglaf-libfabric/libfabric.so.1
	install -D -m 644 target/release/libwiglaf_logical.so $(DESTDIR)$(PREFIX)/lib/wiglaf/libwiglaf-logical.so
	install -D -m 644 target/release/libwiglaf.so $(DESTDIR)$(PREFIX)/lib/libwiglaf.so
	install -D -m 644 crates/wiglaf-am/include/wiglaf.h $(DESTDIR)$(PREFIX)/include/wiglaf.h
	install -D -m 755 target/release/libwiglaf_files.so $(DESTDIR)$(PREFIX)/lib/libwiglaf_files.so
	install -D -m 644 crates/wiglaf-files/include/wiglaf_files.h $(DESTDIR)$(PREFIX)/include/wiglaf_files.h
	install -D -m 755 target/release/wiglaf-helper $(DESTDIR)$(PREFIX)/sbin/wiglaf-helper
	install -D -m 644 share/systemd/wiglaf-helper.service \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/wiglaf-helper.service
	install -D -m 644 share/wireshark/wiglaf.lua $(DESTDIR)$(PREFIX)/share/wireshark/wiglaf.lua

clean:
	cargo clean
