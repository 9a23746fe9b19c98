#!/usr/bin/env bash
# Lets five relays share a table while they are killed and frozen and their broker is restarted, and prints what came of it.
# The seed of an earlier run repeats what is left to chance but the moment. The database is started unless the environment names one.
set -euo pipefail
cd "$(dirname "$0")/.."
export TXMSG_FLEET=full TXMSG_FLEET_SEED="${1:-}" CI="${CI:-true}"

if [ -z "${TXMSG_TEST_POSTGRES:-}" ]; then
	services() { go run ./integration/services/cmd/services "$@"; }
	trap 'services down -folder .run/fleet postgres >/dev/null' EXIT
	eval "$(services up -folder .run/fleet postgres)"
fi

go test -count=1 -timeout 1h -v ./integration/fleet | grep -vE '^(=== RUN|PASS$)'
