# What people type most; each is one line of the same commands that CI runs.

# List the recipes.
default:
    @just --list

# Serve on http://127.0.0.1:7334 with data in ./data.
run *arguments:
    cargo run --release -- {{arguments}}

# All that CI runs.
check:
    .ci/run

# All tests; what they need is installed first.
test *arguments:
    cargo xtask test {{ if arguments == "" { "" } else { "-- " + arguments } }}

# Write the documents that are made from the table of options.
docs:
    cargo xtask docs

# Licences, sources, banned crates, advisories.
deny:
    cargo xtask deny
