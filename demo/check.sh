#!/usr/bin/env bash
# Runs the check of the demo: check.sh [backend] [sabotage]. Starts the services that the backend needs, unless the
# environment names them (TXMSG_TEST_POSTGRES, …), and stops those it started.
set -euo pipefail
cd "$(dirname "$0")/.."
backend=${1:-} sabotage=${2:-}

case "$backend" in
rocketmq) needs="postgres rocketmq" ;;
localtable/kafka) needs="postgres kafka" ;;
*) needs="" ;; # embedded, or an unknown name: the check says what there is
esac

if [ -n "$needs" ]; then
	services="go run ./integration/services/cmd/services"
	folder=.run/check-services
	trap '$services down -folder "$folder" >/dev/null' EXIT
	# shellcheck disable=SC2086 # both are lists of words
	started=$($services up -folder "$folder" $needs)
	eval "$started"
	export TXMSG_DATABASE="${TXMSG_DATABASE:-$TXMSG_TEST_POSTGRES}"
	case "$backend" in
	rocketmq) export TXMSG_ROCKETMQ_NAME_SERVERS="${TXMSG_ROCKETMQ_NAME_SERVERS:-$TXMSG_TEST_ROCKETMQ}" ;;
	localtable/kafka) export TXMSG_KAFKA_BROKERS="${TXMSG_KAFKA_BROKERS:-$TXMSG_TEST_KAFKA}" ;;
	esac
fi

go run ./demo/cmd/check -backend "$backend" -sabotage "$sabotage"
