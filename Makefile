# The two commands of the README, and some more. Each installs what it needs.
.PHONY: demo test bench doctor install clean

PREFIX ?= /usr/local
# Emulated nodes take root.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# The main job: unmodified MPI programs across an emulated cluster.
demo:
	cargo run --quiet --package xtask -- packages demo
	cargo build --release --quiet --package wiglaf-cli --package wiglaf-fabric
	$(SUDO) target/release/wiglaf demo

# All tests.
test:
	cargo run --quiet --package xtask -- packages test
	cargo run --quiet --package xtask -- test

# The ping-pong beside every rival, into bench/results/.
bench:
	cargo run --quiet --package xtask -- packages test
	cargo build --release --quiet --package wiglaf-cli --package wiglaf-fabric
	$(SUDO) target/release/wiglaf bench pingpong --output bench/results

# Command, provider, C library and header under PREFIX.
install:
	cargo build --release --package wiglaf-cli --package wiglaf-fabric --package wiglaf-am
	install -D -m 755 target/release/wiglaf $(DESTDIR)$(PREFIX)/bin/wiglaf
	install -D -m 644 target/release/libwiglaf_fabric.so $(DESTDIR)$(PREFIX)/lib/wiglaf/libwiglaf-fi.so
	install -D -m 644 target/release/libwiglaf.so $(DESTDIR)$(PREFIX)/lib/libwiglaf.so
	install -D -m 644 crates/wiglaf-am/include/wiglaf.h $(DESTDIR)$(PREFIX)/include/wiglaf.h

clean:
	cargo clean
