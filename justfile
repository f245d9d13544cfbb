# Daily commands: `just` lists them. Each can be typed by hand as it stands here.

_default:
    @just --list

# The main job on the embedded simulation: a Harvester node boots in an empty directory, a new temporary one when none is named
sandbox *directory:
    cargo run -- sandbox {{directory}}

# What a change is checked with before it is committed
check:
    cargo fmt --all --check
    cargo clippy --quiet --workspace --all-targets -- -D warnings
    cargo test --quiet --workspace --lib --bins

# The unit tests of one crate: `just crate decide`, `just crate decide a_hold`
crate name *filter:
    cargo test -p windrow-{{name}} --lib {{filter}}

# The unit tests of the program itself: `just program`, `just program trial`
program *filter:
    cargo test -p windrow --lib {{filter}}

# One file of tests with real parts: `just local dbus::`, `just kubernetes fidelity::`, `just systemd boot::`
local *filter:
    cargo test --test local {{filter}}

# Needs what `tests/run --level 4` brings
kubernetes *filter:
    cargo test --test kubernetes {{filter}}

# Needs root and what `tests/run --level 5` brings
systemd *filter:
    cargo test --test systemd {{filter}}

# Everything, as it is run before a change lands: about half an hour
test *levels:
    tests/run {{levels}}

# Writes what is generated: man page, completions, catalogue, schemas, tables in docs/
generate:
    WINDROW_UPDATE=1 cargo test --quiet --test local generated::
    WINDROW_UPDATE=1 cargo test --quiet --workspace --lib schema

# One benchmark: plan, decide, simulation, gates, daemon; trial needs root and what `tests/run --level 5` brings
bench name:
    cargo bench --bench {{name}}

# Packages and the program as they are shipped, in target/packages: `just package`, `just package --fast --programs DIR deb`
package *options:
    packaging/build {{options}}

# A release, all of it, in target/release-VERSION: `just release 0.2.0`, `just release 0.2.0 --untagged`
release version *options:
    packaging/release {{options}} {{version}}
