#!/usr/bin/env bash
# Measures and writes docs/benchmarks.md; "run.sh quick" prints the ratios to the limits alone, in under three minutes. Servers that
# the environment does not name are started and stopped again. Further arguments are the command's.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd .. && pwd)
folder="$root/.run/bench"
mkdir -p "$folder"

missing=()
[ -n "${TXMSG_TEST_POSTGRES:-}" ] || missing+=(postgres)
[ -n "${TXMSG_TEST_KAFKA:-}" ] || missing+=(kafka)
if [ ${#missing[@]} -gt 0 ]; then
	services() { (cd "$root" && go run ./integration/services/cmd/services "$@"); }
	trap 'services down -folder "$folder/services" "${missing[@]}" >/dev/null' EXIT
	eval "$(services up -folder "$folder/services" "${missing[@]}")"
fi

go build -mod=mod -o "$folder/bench" . # the library's dependencies may have changed
if [ "${1:-}" = quick ]; then
	shift
	"$folder/bench" -quick "$@"
else
	"$folder/bench" -results "$folder/results.json" -docs "$root/docs/benchmarks.md" "$@"
fi
