#!/bin/sh
# A program that has frozen its objects for the garbage collector ends with a list of leaks once it has imported DuckDB.
#
# Versions: duckdb 2.0.0 (nanobind in place of pybind11), CPython 3.11 or newer.
# Good guess: gc.freeze() only keeps the collector away from what exists, as the documentation of gc says of servers that
#   fork; it changes nothing else, and prints nothing.
# Seen: exit code 0, and on stderr about fifty lines such as
#
#     nanobind: leaked 27 instances!
#      - leaked instance 0x... of type "_duckdb._sqltypes.DuckDBPyType"
#     nanobind: leaked 111 functions!
#
#   Without gc.freeze(), or with gc.unfreeze() before the end, there is none. No connection was opened.
# For a user: a server, a run of tests or a command that freezes after its imports seems to have a leak, and a cron job
#   that mails what is on stderr does. Call gc.unfreeze() before the process ends.
#
# Needs: python3 with venv, timeout. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

python3 -m venv venv
timeout 300 venv/bin/pip install -q --disable-pip-version-check duckdb==2.0.0

leaks() {
    timeout 60 venv/bin/python -c "$1" 2>stderr >stdout || { cat stderr; exit 1; }
    grep -c "^nanobind: leaked" stderr || true
}
plain=$(leaks 'import duckdb')
frozen=$(leaks 'import gc, duckdb; gc.freeze()')
lines=$(wc -l <stderr)
thawed=$(leaks 'import gc, duckdb; gc.freeze(); gc.unfreeze()')
echo "kinds of leaks: plain $plain, frozen $frozen ($lines lines), unfrozen before the end $thawed"

if [ "$plain" = 0 ] && [ "$frozen" -gt 0 ] && [ "$thawed" = 0 ]; then
    echo "still so"
else
    echo "CHANGED"
    exit 1
fi
