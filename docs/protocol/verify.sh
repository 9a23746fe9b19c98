#!/usr/bin/env bash
# Checks the models of this directory with spin: each instance must hold, and each mutant must break the property that the
# rule it lacks is there for. Prints one line a check, when it ends, and fails on any surprise.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v spin >/dev/null || ! command -v cc >/dev/null; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "spin (6.5 or later) and a C compiler are needed: Debian packages spin, gcc, libc6-dev" >&2
		exit 1
	fi
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends spin gcc libc6-dev >/dev/null
fi

memory=1024 # MB a check may use
seconds=120 # of processor time a check may use
depth=100000
jobs=2 # checks at a time

models=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0

# check <model> <holds, or the property that must break> <name> <macro>...
check() {
	checks=$((checks + 1))
	[ "$checks" -le "$jobs" ] || wait -n || true
	mkdir "$work/$checks"
	run "$work/$checks" "$@" &
}

run() {
	local dir=$1 model=$2 expected=$3 name=$4 optimize=-O1 outcome states start=$EPOCHREALTIME
	shift 4
	[ "$expected" = holds ] || optimize=-O0 # it ends soon
	(
		cd "$dir"
		ulimit -t "$seconds"
		spin "${@/#/-D}" -a "$models/$model.pml" &&
			cc "$optimize" -w -DSAFETY -DCOLLAPSE -DMEMLIM="$memory" -DVECTORSZ=2048 -o pan pan.c &&
			nice -n 10 ./pan -m"$depth" -w22
	) >"$dir/out" 2>&1 || true
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$dir/out")
	if grep -q 'assertion violated' "$dir/out"; then
		outcome=$(sed -n 's/.*assertion violated \(.*\) (at depth.*/\1/p' "$dir/out")
	elif grep -q 'invalid end state' "$dir/out" && ! grep -q 'errors: 0' "$dir/out"; then
		outcome=deadlock
	elif grep -Eq 'max search depth too small|Search not completed|out of memory|memory bound' "$dir/out" || ! grep -q 'errors: 0' "$dir/out"; then
		outcome="not completed"
	else
		outcome=holds
	fi
	printf '%-10s %-66s %-12s %-12s %9s states %6.1f s\n' "$model" "$name" "$expected" "$outcome" "${states:-?}" \
		"$(awk "BEGIN { print $EPOCHREALTIME - $start }")"
	if [ "$outcome" = "$expected" ]; then
		touch "$dir/expected"
	else
		echo "  surprise: $name; macros: ${*:-none}"
		grep -Ev '^$|^\(Spin|^Warning' "$dir/out" | head -n 8 | sed 's/^/  /'
	fi
	rm -f "$dir"/pan*
}

printf '%-10s %-66s %-12s %-12s\n' model check expected outcome

holds() { check localtable holds "$@"; }
holds "one key, refusals and an outage, one takeover" TAKES=2
holds "one key, refusals, two takeovers" TAKES=3 OUTAGES=0
holds "dead heads release their key" TAKES=2 HOLD=0 OUTAGES=0
holds "settlements unpark all: no sweep is needed" TAKES=2 SWEEP=0 UNPARK=N OUTAGES=0
holds "two keys, writers commit in any order" TAKES=2 TWO_KEYS OUTAGES=0
holds "two keys, four rows, one row a read at the end" TAKES=1 TWO_KEYS N=4 LIMIT=1
holds "topics that rest, refusals" TAKES=2 SPARED=1 OUTAGES=0
holds "topics that rest, an outage, batches that end early" TAKES=1 SPARED=2 REFUSALS=1 STOPS=1
holds "two lanes, batches that end early" TAKES=2 TWO_KEYS TWO_LANES STOPS=1 REFUSALS=1 OUTAGES=0
holds "three relays" TAKES=3 RELAYS=3 N=2 OUTAGES=0
holds "settlements given up that arrive, the lane kept" TAKES=1 GIVEN_UP=1
holds "settlements given up that arrive, the lane lost" TAKES=2 GIVEN_UP=1 N=2 OUTAGES=0
holds "a person's verbs" TAKES=2 PERSONS=1 REFUSALS=3 OUTAGES=0
holds "two persons' verbs" TAKES=1 PERSONS=2 VERBS=2 ATTEMPTS=1 N=4 OUTAGES=0
holds "a person's verbs, dead heads release their key" TAKES=2 PERSONS=1 HOLD=0 ATTEMPTS=1 OUTAGES=0
holds "a person's verbs, no sweep is needed" TAKES=2 PERSONS=1 ATTEMPTS=1 OUTAGES=0 SWEEP=0 UNPARK=N
holds "writers without a common lock: nothing lost or stuck" TAKES=2 COMMON_LOCK=0 OUTAGES=0
holds "transactions that are rolled back" TAKES=2 N=2 ROLLBACKS=1

holds "crash of the database, refusals, one takeover" TAKES=2 REFUSALS=1 OUTAGES=0 CRASHES=1
holds "crash of the database, settlements given up that arrive" TAKES=1 GIVEN_UP=1 OUTAGES=0 CRASHES=1
holds "crash of the database, a person's verbs" TAKES=1 PERSONS=1 ATTEMPTS=1 OUTAGES=0 CRASHES=1

bounds() { holds "bound: $1" BOUND "${@:2}"; }
bounds "one key, refusals, one takeover" TAKES=2 REFUSALS=1 OUTAGES=0
bounds "two rows, two takeovers" TAKES=3 N=2 OUTAGES=0
bounds "refusals and an outage" TAKES=1
bounds "two keys, writers commit in any order, one takeover" TAKES=2 TWO_KEYS REFUSALS=1 OUTAGES=0
bounds "two keys, four rows, three writers at a time" TAKES=1 TWO_KEYS N=4 WRITERS=3 REFUSALS=1 OUTAGES=0
bounds "writers without a common lock, three at a time, rollbacks" TAKES=2 TWO_KEYS COMMON_LOCK=0 WRITERS=3 REFUSALS=0 ROLLBACKS=1 OUTAGES=0
bounds "two lanes" TAKES=1 TWO_KEYS TWO_LANES REFUSALS=1 OUTAGES=0
bounds "topics that rest, batches that end early" TAKES=1 SPARED=1 STOPS=1 REFUSALS=1 OUTAGES=0
bounds "settlements given up that arrive" TAKES=1 GIVEN_UP=1 REFUSALS=1 OUTAGES=0
bounds "a person's verbs, two keys" TAKES=1 TWO_KEYS PERSONS=1 ATTEMPTS=1 OUTAGES=0
bounds "full reads among others" TAKES=1 TWO_KEYS OUTAGES=0 FULL=1
bounds "full reads, rows made ready by hand" TAKES=1 REFUSALS=1 PERSONS=1 ATTEMPTS=1 OUTAGES=0 FULL=1 BY_HAND
bounds "two crashes of the database" TAKES=1 REFUSALS=1 OUTAGES=0 CRASHES=2
bounds "crash of the database, two keys, a rollback" TAKES=1 TWO_KEYS REFUSALS=1 ROLLBACKS=1 OUTAGES=0 CRASHES=1

mutant() { check localtable "$@"; }
mutant fenced "mutant: no epoch in the settlement" TAKES=2 OUTAGES=0 NO_EPOCH
mutant in_order "mutant: blocked keys kept in the owner's memory" TAKES=2 OUTAGES=0 BLOCKED_IN_MEMORY
mutant in_order "mutant: two rows of a key in one call" TAKES=1 REFUSALS=1 OUTAGES=0 TWO_IN_A_CALL
mutant not_stuck "mutant: unpark in a second statement" TAKES=2 SWEEP=0 UNPARK=N OUTAGES=0 UNPARK_SECOND
mutant in_order "mutant: a due head left out by the limit holds nobody" TAKES=1 OUTAGES=0 CUT_HEAD
mutant counts_once "mutant: no revision in the settlement" TAKES=1 ATTEMPTS=3 OUTAGES=0 NO_REVISION
mutant not_stuck "mutant: park without looking again for a failed row" TAKES=1 SWEEP=0 UNPARK=N PERSONS=1 ATTEMPTS=1 OUTAGES=0 NO_RECHECK
mutant not_stuck "mutant: a row that failed is parked and goes on holding" TAKES=1 COMMON_LOCK=0 OUTAGES=0 PARK_KEEPS_HOLD
mutant in_order "mutant: a row is set aside behind one that is sent" TAKES=1 REFUSALS=0 SPARED=1 ASIDE_BEHIND
mutant not_stuck "mutant: bounded unpark and no sweep" TAKES=1 SWEEP=0 OUTAGES=0
mutant fenced "mutant: settlement without the lane's lock, takeover" TAKES=2 OUTAGES=0 NO_LANE_LOCK
mutant not_stuck "mutant: settlement without the lane's lock, a person's verb" TAKES=1 SWEEP=0 UNPARK=N PERSONS=1 ATTEMPTS=1 OUTAGES=0 NO_LANE_LOCK
mutant not_stuck "mutant: a person's verb without the lane's lock" TAKES=1 SWEEP=0 UNPARK=N PERSONS=1 ATTEMPTS=1 OUTAGES=0 VERB_WITHOUT_LOCK
mutant no_ghost "mutant: rows of open transactions are read" TAKES=1 N=2 ROLLBACKS=1 DIRTY_READ
mutant no_ghost "mutant: a writer's commit that does not wait for the disk" TAKES=1 REFUSALS=0 OUTAGES=0 CRASHES=1 ASYNC_WRITE

unbound() { check localtable "$1" "mutant of the bound: $2" BOUND TAKES=1 OUTAGES=0 "${@:3}"; }
unbound not_lost "the last seq that was read" TWO_KEYS REFUSALS=0 LAST_SEQ
unbound not_lost "no period of grace" TWO_KEYS REFUSALS=0 NO_GRACE
unbound not_lost "W is taken before H" TWO_KEYS REFUSALS=0 W_FIRST
unbound not_lost "W are transactions with an xid, not a lock" TWO_KEYS REFUSALS=0 BY_XID
unbound not_lost "it passes a ready row" REFUSALS=0 NO_FIRST
unbound not_lost "unparked by a settlement, not counted" REFUSALS=1 UNCOUNTED_SETTLEMENT
unbound not_lost "unparked by a sweep, not counted" UNCOUNTED_SWEEP
unbound not_lost "unparked by a person, not counted" REFUSALS=1 PERSONS=1 ATTEMPTS=1 UNCOUNTED_VERB
unbound not_lost "counter and rows of two snapshots" REFUSALS=1 TWO_SNAPSHOTS
unbound not_lost "made ready by hand, and no full read" REFUSALS=1 PERSONS=1 ATTEMPTS=1 BY_HAND
unbound not_lost "it outlives a crash of the database" REFUSALS=1 CRASHES=1 KEEP_BOUND
unbound in_order "it outlives a crash, with full reads" REFUSALS=1 CRASHES=1 KEEP_BOUND FULL=1

check rocketmq holds "half, record, COMMIT, settlement, two checks, kill"
check rocketmq one_answer "mutant: a check that leaves no tombstone" CHECKS=1 NO_TOMBSTONE
check rocketmq one_answer "mutant: state read in the snapshot that waited" CHECKS=1 SAME_SNAPSHOT
check rocketmq one_answer "mutant: an unclear COMMIT is told as Rollback" CHECKS=1 UNCLEAR_IS_ROLLBACK
check rocketmq once "mutant: the record of a half given up is kept" CHECKS=1 KEEP_RECORD
check rocketmq not_lost "mutant: COMMIT before the half is stored" CHECKS=1 COMMIT_UNSTORED

wait
surprises=$((checks - $(find "$work" -name expected | wc -l)))
echo "$checks checks, $surprises surprises, $SECONDS s"
[ "$surprises" -eq 0 ]
