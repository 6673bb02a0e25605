# The two commands of the README, and some more. Each installs what it needs.
.PHONY: demo test bench conformance release install uninstall deb deb-lint deb-try clean linker

PREFIX ?= /usr/local
# Emulated nodes take root.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Has the links to the provider made before root would make them, as root's.
LINKS = target/release/wiglaf env > /dev/null || true

# Rust needs a linker before it can build even the task that installs packages.
linker:
	@command -v cc >/dev/null || { \
		echo "A C compiler is missing; running: apt-get install -y gcc libc6-dev"; \
		$(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq gcc libc6-dev >/dev/null; }

# The main job: unmodified MPI programs across an emulated cluster.
demo: linker
	cargo run --quiet --package xtask -- packages demo
	cargo build --release --quiet --package wiglaf-cli --package wiglaf-fabric
	@$(LINKS)
	$(SUDO) target/release/wiglaf demo

# All tests.
test: linker
	cargo run --quiet --package xtask -- packages test
	cargo run --quiet --package xtask -- test

# The whole set of benchmarks in at most 20 minutes, into bench/results/.
bench: linker
	cargo run --quiet --package xtask -- packages demo
	cargo build --release --quiet --package wiglaf-cli --package wiglaf-fabric
	@$(LINKS)
	$(SUDO) target/release/wiglaf bench all --minutes 20 --output bench/results

# The test suites of others, over Wiglaf and over TCP, into docs/conformance.md: those that fit half
# an hour, or with CONFORMANCE=all every one. libfabric's own tests are not packaged: FABTESTS is the
# folder where they are installed. MPICH_TESTS is the folder test/mpi of MPICH's sources, IMB that of the
# sources of Intel's MPI benchmarks; each that is named is run as well. MPIS=openmpi@4,mpich@5 takes only these.
conformance: linker
	cargo run --quiet --package xtask -- conformance $(if $(FABTESTS),--fabtests $(FABTESTS)) \
		$(if $(MPICH_TESTS),--mpich-tests $(MPICH_TESTS)) $(if $(IMB),--imb $(IMB)) \
		$(if $(MPIS),--mpi $(MPIS)) $(if $(filter all,$(CONFORMANCE)),--all)

# What `install` copies, without the trials (soak, attacks) that are in every other build. It takes no root.
release: linker
	cargo build --release --no-default-features --package wiglaf-cli --package wiglaf-fabric \
		--package wiglaf-logical --package wiglaf-am --package wiglaf-files --package wiglaf-helper \
		--package wiglaf-profile --package wiglaf-profile-mpi4 --package wiglaf-multicast \
		--package wiglaf-multicast-mpi4

# Where `release` leaves it, under which names, and where it goes.
BUILT ?= target/release
ARTIFACTS = wiglaf wiglaf-helper libwiglaf_fabric.so libwiglaf_logical.so libwiglaf_profile.so \
	libwiglaf_profile_mpi4.so libwiglaf_multicast.so libwiglaf_multicast_mpi4.so \
	libwiglaf.so libwiglaf_files.so
ROOT = $(DESTDIR)$(PREFIX)
# What `build` leaves for debuggers is four fifths of it all, which `wiglaf join` would copy to each host;
# `make install STRIP=:` keeps it.
STRIP ?= strip --strip-debug
UNIT = $(ROOT)/lib/systemd/system/wiglaf-helper.service
SOCKET = $(ROOT)/lib/systemd/system/wiglaf-helper.socket
BASH = $(ROOT)/share/bash-completion/completions/wiglaf
ZSH = $(ROOT)/share/zsh/site-functions/_wiglaf
FISH = $(ROOT)/share/fish/vendor_completions.d/wiglaf.fish

# Everything under PREFIX; it builds nothing, so `sudo make install` leaves no file of root's in this folder.
# Nor does it install half: `demo` and `bench` build some of it only.
install:
	@for file in $(ARTIFACTS); do test -e $(BUILT)/$$file || { \
		echo "$(BUILT)/$$file is not built yet; run: make release" >&2; exit 1; }; done
	install -D -m 755 $(BUILT)/wiglaf $(ROOT)/bin/wiglaf
	install -D -m 644 $(BUILT)/libwiglaf_fabric.so $(ROOT)/lib/wiglaf/libwiglaf-fi.so
	install -d $(ROOT)/lib/wiglaf/wiglaf-libfabric
	ln -sf ../libwiglaf-fi.so $(ROOT)/lib/wiglaf/wiglaf-libfabric/libfabric.so.1
	install -D -m 644 $(BUILT)/libwiglaf_logical.so $(ROOT)/lib/wiglaf/libwiglaf-logical.so
	install -D -m 644 $(BUILT)/libwiglaf_profile.so $(ROOT)/lib/wiglaf/libwiglaf-profile.so
	install -D -m 644 $(BUILT)/libwiglaf_profile_mpi4.so $(ROOT)/lib/wiglaf/libwiglaf-profile-mpi4.so
	install -D -m 644 $(BUILT)/libwiglaf_multicast.so $(ROOT)/lib/wiglaf/libwiglaf-multicast.so
	install -D -m 644 $(BUILT)/libwiglaf_multicast_mpi4.so $(ROOT)/lib/wiglaf/libwiglaf-multicast-mpi4.so
	install -D -m 644 $(BUILT)/libwiglaf.so $(ROOT)/lib/libwiglaf.so
	install -D -m 644 crates/wiglaf-am/include/wiglaf.h $(ROOT)/include/wiglaf.h
	install -D -m 644 $(BUILT)/libwiglaf_files.so $(ROOT)/lib/libwiglaf_files.so
	install -D -m 644 crates/wiglaf-files/include/wiglaf_files.h $(ROOT)/include/wiglaf_files.h
	install -D -m 644 crates/wiglaf-files/fortran/wiglaf_files.f90 $(ROOT)/include/wiglaf_files.f90
	install -D -m 755 $(BUILT)/wiglaf-helper $(ROOT)/sbin/wiglaf-helper
	$(STRIP) $(ROOT)/bin/wiglaf $(ROOT)/sbin/wiglaf-helper $(ROOT)/lib/wiglaf/*.so $(ROOT)/lib/libwiglaf.so \
		$(ROOT)/lib/libwiglaf_files.so
	install -D -m 644 share/systemd/wiglaf-helper.service $(UNIT)
	sed -i 's|/usr/local/sbin|$(PREFIX)/sbin|' $(UNIT)
	install -D -m 644 share/systemd/wiglaf-helper.socket $(SOCKET)
	install -D -m 644 share/wireshark/wiglaf.lua $(ROOT)/share/wireshark/wiglaf.lua
	install -D -m 644 share/man/wiglaf-helper.8 $(ROOT)/share/man/man8/wiglaf-helper.8
	install -d $(ROOT)/share/man/man1 $(dir $(BASH)) $(dir $(ZSH)) $(dir $(FISH))
	$(BUILT)/wiglaf man --dir $(ROOT)/share/man/man1
	$(BUILT)/wiglaf completions bash > $(BASH)
	$(BUILT)/wiglaf completions zsh > $(ZSH)
	$(BUILT)/wiglaf completions fish > $(FISH)
	[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

# Files only: folders stay, for they may be others' too, but for the one that is Wiglaf's alone.
uninstall:
	rm -rf $(ROOT)/lib/wiglaf
	rm -f $(ROOT)/bin/wiglaf $(ROOT)/sbin/wiglaf-helper $(ROOT)/share/wireshark/wiglaf.lua
	rm -f $(ROOT)/lib/libwiglaf.so $(ROOT)/lib/libwiglaf_files.so $(UNIT) $(SOCKET)
	rm -f $(ROOT)/include/wiglaf.h $(ROOT)/include/wiglaf_files.h $(ROOT)/include/wiglaf_files.f90
	rm -f $(ROOT)/share/man/man1/wiglaf.1 $(ROOT)/share/man/man1/wiglaf-*.1 $(ROOT)/share/man/man8/wiglaf-helper.8
	rm -f $(BASH) $(ZSH) $(FISH)
	[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

# Debian packages of what `release` builds, into target/debian. It takes dpkg-dev, binutils and patchelf, and no root.
deb: release
	share/debian/build

# What Debian's own checker says of them (apt-get install lintian): no errors and no warnings, but for overrides with reasons.
deb-lint: deb
	lintian --allow-root --fail-on error,warning target/debian/*.deb

# Installs, upgrades, removes and purges them in fresh roots of Debian 12, 13 and sid (root, mmdebstrap, minutes).
deb-try: release
	$(SUDO) share/debian/try

clean:
	cargo clean
