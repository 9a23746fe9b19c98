#!/usr/bin/env bash
# Installs and starts the services that the tests need, runs every test, and fails if one was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
export CI="${CI:-true}"

if ! command -v cc >/dev/null; then # the race detector needs cgo
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends gcc libc6-dev
fi

make lint

results=$(mktemp)
trap 'go run ./integration/services/cmd/services down; rm -f "$results"' EXIT
eval "$(go run ./integration/services/cmd/services up)"

go tool gotestsum --format pkgname --jsonfile "$results" -- -race -count=1 -timeout 20m -p 2 ./...

echo "killed at every point of the protocols:"
sed -n 's/.*"Output":"\(crash: .*\)\\n"}$/\1/p' "$results"

echo "several relays killed and frozen at random:"
sed -n 's/.*"Output":"\(fleet: .*\)\\n"}$/\1/p' "$results"

skipped=$(grep '"Action":"skip"' "$results" | grep -c '"Test":' || true)
echo "skipped tests: $skipped"
if [ "$skipped" -ne 0 ]; then
	grep '"Action":"skip"' "$results" | grep '"Test":'
	exit 1
fi
