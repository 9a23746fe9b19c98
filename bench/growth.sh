#!/usr/bin/env bash
# Shows whether polls and drains cost the same however much the tables hold. Starts a database server of its own, since it leaves
# transactions open for long, and stops it again. Takes about 10 GB of disk and an hour. Arguments are the command's.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd .. && pwd)
folder="$root/.run/growth"
mkdir -p "$folder"
unset TXMSG_TEST_POSTGRES
services() { (cd "$root" && go run ./integration/services/cmd/services "$@"); }
trap 'services down -folder "$folder/services" postgres >/dev/null' EXIT
eval "$(services up -folder "$folder/services" postgres)"

go build -mod=mod -o "$folder/bench" . # the library's dependencies may have changed
"$folder/bench" growth "$@"
