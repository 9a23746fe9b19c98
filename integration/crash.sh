#!/usr/bin/env bash
# Kills processes at every named point of the protocols, so many rounds a point, and prints a table of the points.
set -euo pipefail
cd "$(dirname "$0")/.."
export TXMSG_CRASH_ROUNDS="${1:-20}" CI="${CI:-true}"

trap 'go run ./integration/services/cmd/services down' EXIT
eval "$(go run ./integration/services/cmd/services up)"

go test -count=1 -timeout 3h -v ./integration/crash | grep --line-buffered -E '^(crash:|ok|FAIL|PASS|panic:)|--- FAIL|Error|Messages'
