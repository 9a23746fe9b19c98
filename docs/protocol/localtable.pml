/*
 * The local table: write, read, publish, settle, sweep, takeover, a person's verbs, and what fails around them.
 *
 * README.md maps each part to the code and says what is left out. verify.sh runs the checks, and the mutants: one rule of the
 * code taken out by a macro, each of which must break a property.
 *
 * A process that crashes is one that takes no further step, and one that was paused takes its next step late; both are in
 * every run, because any process may stand still between any two steps. A lane may be taken from its owner at any time.
 */

/* the instance */
#ifndef N
#define N 3              /* rows; their numbers are their seq */
#endif
#ifdef TWO_KEYS
#define KEYS 2
#define KEY(r) ((r) == 1) /* the key of a row: a b a a */
#else
#define KEYS 1
#define KEY(r) 0
#endif
#ifdef TWO_LANES
#define LANES 2
#define LANE(k) (k)      /* the lane of a key */
#else
#define LANES 1
#define LANE(k) 0
#endif
#ifndef RELAYS
#define RELAYS 2
#endif
#ifndef TAKES
#define TAKES 3          /* how often a lane changes hands; no row is lost for want of one, see close */
#endif
#ifndef REFUSALS
#define REFUSALS 2       /* how often the broker refuses */
#endif
#ifndef OUTAGES
#define OUTAGES 1        /* how often it gives no answer */
#endif
#ifndef SPARED
#define SPARED 0         /* how many rows are set aside: their topic rests or has no route */
#endif
#ifndef STOPS
#define STOPS 0          /* whether a relay ends a batch early */
#endif
#ifndef GIVEN_UP
#define GIVEN_UP 0       /* how often a relay gives up a settlement that is still on the wire */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2       /* Config.MaxAttempts */
#endif
#ifndef UNPARK
#define UNPARK 1         /* Settlement.Unpark and the limit of Sweep */
#endif
#ifndef HOLD
#define HOLD 1           /* Config.DeadKey: hold, or 0 for release */
#endif
#ifndef SWEEP
#define SWEEP 1
#endif
#ifndef LIMIT
#define LIMIT N          /* rows of a read while the model closes */
#endif
#ifndef PERSONS
#define PERSONS 0
#endif
#ifndef VERBS
#define VERBS 1          /* of all persons */
#endif
#ifndef COMMON_LOCK
#define COMMON_LOCK 1    /* the writers of a key hold a lock from before the INSERT until COMMIT */
#endif
#ifndef ROLLBACKS
#define ROLLBACKS 0
#endif
#ifndef WRITERS
#define WRITERS 2        /* transactions that write at the same time, with BOUND */
#endif
#ifndef FULL
#define FULL 0           /* some reads pay no heed to the bound */
#endif
#ifndef CRASHES
#define CRASHES 0        /* of the database, which may forget the newest commits of all but the writers */
#endif

/* states of a row; VOID: its transaction was rolled back */
#define NONE    0
#define READY   1
#define RETRY   2
#define PARKED  3
#define DEAD    4
#define GONE    5
#define SKIPPED 6
#define VOID    7

byte st[N];
byte rev[N];
byte att[N];
bool holds[N];
byte owner[LANES];       /* relay + 1 */
byte epoch[LANES];

/* the broker, and what is known about it from outside */
bool stored[N];          /* it has a copy */
bool late[N];            /* a request without an answer is still on the wire */
bool exempt[N];          /* skipped, released, or dead without holding: outside the order of its key */
byte refused[N];

/* what a batch knows of a row: code, whether it was a retry, and its revision */
#define SEND 1           /* to be sent */
#define LAST 2           /* to be sent, and dead if it is refused */
#define OK   3
#define AGAIN 4
#define DIES 5
#define PARK 6
#define SPARE 7          /* not sent, a retry that spends no attempt */
#define CODE(x) ((x) & 7)
#define SENT(x) (CODE(x) == SEND || CODE(x) == LAST)
#define WAS_RETRY(x) ((x) & 8)
#define REV(x) ((x) >> 4)

typedef Batch {
	byte row[N];
	byte ep[LANES];      /* the epoch of each lane as the relay knows it; 0: it does not hold it */
};
#define GHOST RELAYS     /* a settlement that was given up: the request may yet arrive, once or twice */
Batch b[RELAYS + 1];
byte ghost;              /* its owner */
#define OWNER(s) ((s) == GHOST -> ghost : (s) + 1)
#define MINE(s, l) (owner[l] == OWNER(s) && epoch[l] == b[s].ep[l])

byte refusals, outages, spared, givenUp, verbs, rollbacks;
bool closed;

#ifdef BLOCKED_IN_MEMORY
byte blocked[RELAYS];    /* keys, as bits */
#endif

/* What the log on the disk says: a crash of the database goes back to it. */
#if CRASHES > 0
typedef Disk {
	byte st[N];
	byte rev[N];
	byte att[N];
	bool holds[N];
	byte owner[LANES];
	byte epoch[LANES];
#ifdef BOUND
	byte reopened[LANES];
	byte seq;
#endif
};
Disk disk;
byte crashes;
#endif

/*
 * The lower bound for polls. One memory stands for that of every process: a read may or may not learn, and every bound that was
 * ever true stays true.
 */
#ifdef BOUND
byte low[LANES], known[LANES]; /* no row of the lane with seq <= low is or becomes ready while the counter is as known */
byte reopened[LANES];    /* the lane's counter, in the table */
byte seq;                /* the last value of the sequence */
byte locked, lockedW;    /* transactions that hold the table's lock and have no seq yet; those in W are counted in lockedW */
byte open, openW;        /* rows that are written and not committed, as bits; those whose transactions are in W */
byte upTo, grace, safe;  /* H; how far the period is; the H of the last one that is over */
#ifdef TWO_SNAPSHOTS
byte asked[RELAYS];
#define FROM(i, l) asked[i]
#else
#define FROM(i, l) (wide || reopened[l] != known[l] -> 0 : low[l])
#endif
#ifdef BY_XID
byte xid;                /* rows whose transactions have one */
#endif
bool wide, learns;
#else
#define FROM(i, l) 0
#endif

/* which unparkings count */
#ifdef UNCOUNTED_SETTLEMENT
#define BY_SETTLEMENT 0
#else
#define BY_SETTLEMENT 1
#endif
#ifdef UNCOUNTED_SWEEP
#define BY_SWEEP 0
#else
#define BY_SWEEP 1
#endif
#ifdef UNCOUNTED_VERB
#define BY_PERSON 0
#else
#define BY_PERSON 1
#endif
#ifdef UNPARK_SECOND
byte pending[RELAYS + 1];
#endif

/* for one step each */
hidden byte r, q, x, c, l, count, freed, turn, first, yes, follows;

/* the properties, under the names that verify.sh knows them by */
hidden byte no_ghost;    /* what reaches the broker was committed */
hidden byte in_order;    /* first copies of a key reach it in the order of writing */
hidden byte fenced;      /* a settlement changes rows only for the owner of the lane in its epoch */
hidden byte counts_once; /* an attempt is counted once; only a row whose attempts ran out is dead */
hidden byte not_lost;    /* a row that leaves the table as delivered is in the broker, and every row gets that far, or is dead, or skipped */
hidden byte not_stuck;   /* no row stays parked but behind a dead one that holds its key */
byte pick, cut, stop, at;

/* A copy reaches the broker: of a row that was committed, and the first one after those of the rows before it. */
inline store(m) {
	no_ghost = st[m] != NONE && st[m] != VOID;
	assert(no_ghost);
	if
	:: COMMON_LOCK && !stored[m] && !exempt[m] ->
		for (q : 0 .. N - 1) {
			in_order = q >= m || KEY(q) != KEY(m) || stored[q] || exempt[q] || st[q] == VOID;
			assert(in_order)
		}
	:: else
	fi;
	stored[m] = true
}

/* freeSQL: the parked rows of a key before which nothing has failed, in order, a bounded number. */
inline unpark(k, most, counts) {
	count = 0;
	yes = true;
	for (q : 0 .. N - 1) {
		if
		:: KEY(q) == k && holds[q] -> yes = false
		:: else
		fi;
		if
		:: KEY(q) == k && yes && st[q] == PARKED && count < most ->
			st[q] = READY;
			rev[q]++;
			count++
		:: else
		fi
	}
#ifdef BOUND
	;
	if
	:: count && counts -> reopened[LANE(k)]++
	:: else
	fi
#endif
}

/* which rows are ready to be read */
#ifdef DIRTY_READ
#define READABLE(i, m) (st[m] == READY || st[m] == NONE)
#else
#define READABLE(i, m) (st[m] == READY && (m) >= FROM(i, LANE(KEY(m)))) /* m + 1 is its seq */
#endif

/* readSQL, after rows were chosen: which of them are followers. */
inline read(i) {
	for (r : 0 .. N - 1) {
		if
		:: pick & (1 << r) ->
#ifdef BLOCKED_IN_MEMORY
			follows = (blocked[i] & (1 << KEY(r))) && st[r] == READY;
#else
			follows = false;
#endif
			for (q : 0 .. N - 1) {
				if
				:: q < r && KEY(q) == KEY(r) ->
#ifdef BLOCKED_IN_MEMORY
					if
					:: st[q] == RETRY && (pick & (1 << q)) -> follows = false
					:: else
					fi
#else
					if
					:: holds[q] && !((pick | cut) & (1 << q)) -> follows = true
					:: st[q] == PARKED -> follows = true
					:: else
					fi
#endif
				:: else
				fi
			}
			c = (follows -> PARK : (att[r] + 1 >= ATTEMPTS -> LAST : SEND));
			assert(rev[r] < 15);
			b[i].row[r] = c | (st[r] == RETRY -> 8 : 0) | (rev[r] << 4)
		:: else
		fi
	}
}

#ifdef BOUND
#ifdef NO_GRACE
#define SAFE seq
#else
#define SAFE safe
#endif
/* What a read says of the bounds: its snapshot is younger than the end of the period. */
inline learn(i) {
	for (l : 0 .. LANES - 1) {
		if
		:: b[i].ep[l] ->
			first = SAFE;
#ifdef LAST_SEQ
			first = low[l];
#endif
			for (q : 0 .. N - 1) {
				if
#ifdef LAST_SEQ
				:: LANE(KEY(q)) == l && st[q] == READY && pick & (1 << q) -> first = q + 1
#else
#ifndef NO_FIRST
				:: LANE(KEY(q)) == l && READABLE(i, q) && q < first -> first = q
#endif
#endif
				:: else
				fi
			}
			low[l] = first;
			known[l] = reopened[l]
		:: else
		fi
	}
}
#endif

/* line.stop: what comes after m in its key is not sent in this batch. */
inline drop(i, m, code) {
	yes = true;
	for (q : 0 .. N - 1) {
		if
		:: q > m && KEY(q) == KEY(m) && SENT(b[i].row[q]) ->
#ifdef TWO_IN_A_CALL
			if
			:: yes -> yes = false /* it is in the same call */
			:: else -> b[i].row[q] = (code == PARK -> (b[i].row[q] & 248) | PARK : 0)
			fi
#else
			b[i].row[q] = (code == PARK -> (b[i].row[q] & 248) | PARK : 0)
#endif
		:: else
		fi
	}
}

inline refuse(i, m) {
	refused[m]++;
	c = (CODE(b[i].row[m]) == LAST -> DIES : AGAIN);
	b[i].row[m] = (b[i].row[m] & 248) | c;
	if
	:: c == AGAIN || HOLD -> drop(i, m, PARK)
	:: else -> drop(i, m, 0)
	fi
}

#if SPARED > 0
/* setAside, of a row before which the batch sends none of its key: it waits as what was refused does, and so does what follows. */
inline aside(i, m) {
	yes = true;
#ifndef ASIDE_BEHIND
	for (q : 0 .. N - 1) {
		if
		:: q < m && KEY(q) == KEY(m) && SENT(b[i].row[q]) -> yes = false
		:: else
		fi
	}
#endif
	if
	:: yes ->
		b[i].row[m] = (b[i].row[m] & 248) | SPARE;
		drop(i, m, PARK)
	:: else -> /* it stays as it is, and so does what follows */
		b[i].row[m] = 0;
		drop(i, m, 0)
	fi
}
#endif

#ifdef NO_EPOCH
#define FENCED(s, l) true
#else
#ifdef NO_LANE_LOCK
#define FENCED(s, l) true /* looked at before: decide */
#else
#define FENCED(s, l) MINE(s, l)
#endif
#endif
#ifdef NO_REVISION
#define SAME(m, x) true
#else
#define SAME(m, x) (rev[m] == REV(x))
#endif
#define STANDS(m, x) (st[m] == (WAS_RETRY(x) -> RETRY : READY) && SAME(m, x))

/* isBehind: something before m in its key failed, or waits for what failed. */
inline isBehind(m) {
	yes = false;
	for (q : 0 .. N - 1) {
		if
		:: q < m && KEY(q) == KEY(m) && (holds[q] || st[q] == PARKED) -> yes = true
		:: else
		fi
	}
#if defined(NO_RECHECK) || defined(NO_LANE_LOCK)
	yes = true
#endif
}

/* What is known of a row that leaves the table is of no use to anybody; a batch that holds it does not find it. */
inline leave(m, to) {
	st[m] = to;
	holds[m] = false;
	rev[m] = 0;
	att[m] = 0;
	refused[m] = (CRASHES -> refused[m] : 0) /* a crash may bring it back */
}

/* Settle, under the lane's lock: who is delivered, who failed, who no longer waits, who therefore does. */
inline settle(s) {
	freed = 0;
	for (r : 0 .. N - 1) {
		x = b[s].row[r];
		c = CODE(x);
		l = LANE(KEY(r));
		if
		:: c >= OK && c != PARK && FENCED(s, l) && STANDS(r, x) ->
			fenced = MINE(s, l);
			assert(fenced);
			if
			:: c == OK ->
				not_lost = stored[r];
				assert(not_lost);
				leave(r, GONE)
			:: c == AGAIN || c == SPARE ->
				st[r] = RETRY;
				holds[r] = true;
				rev[r]++;
				att[r] = att[r] + (c == AGAIN)
			:: c == DIES ->
				st[r] = DEAD;
				holds[r] = HOLD;
				exempt[r] = exempt[r] || !HOLD;
				rev[r]++;
				att[r]++;
				counts_once = refused[r] >= ATTEMPTS;
				assert(counts_once)
			fi;
			counts_once = att[r] <= refused[r];
			assert(counts_once)
		:: else
		fi;
		if
		:: (c == OK || c == DIES && !HOLD) && WAS_RETRY(x) && FENCED(s, l) -> freed = freed | (1 << KEY(r))
		:: else
		fi
	}
	unparkFreed(s);
	for (r : 0 .. N - 1) {
		x = b[s].row[r];
		l = LANE(KEY(r));
		if
		:: CODE(x) == PARK && FENCED(s, l) && STANDS(r, x) ->
			isBehind(r);
			if
			:: yes ->
				fenced = MINE(s, l);
				assert(fenced);
				st[r] = PARKED;
#ifndef PARK_KEEPS_HOLD
				holds[r] = false;
#endif
				rev[r]++
			:: else
			fi
		:: else
		fi
	}
}

inline unparkFreed(s) {
#ifdef UNPARK_SECOND
	pending[s] = freed;
#else
	for (l : 0 .. KEYS - 1) {
		if
		:: freed & (1 << l) -> unpark(l, UNPARK, BY_SETTLEMENT)
		:: else
		fi
	}
#endif
#ifdef BLOCKED_IN_MEMORY
	if
	:: s < RELAYS ->
		blocked[s] = blocked[s] & ~freed;
		for (q : 0 .. N - 1) {
			if
			:: CODE(b[s].row[q]) == AGAIN || CODE(b[s].row[q]) == DIES && HOLD -> blocked[s] = blocked[s] | (1 << KEY(q))
			:: else
			fi
		}
	:: else
	fi
#endif
}

#ifdef NO_LANE_LOCK
/* What the statements of a settlement see before another one's commit, if nothing makes them wait. */
inline decide(s) {
	for (r : 0 .. N - 1) {
		x = b[s].row[r];
		yes = CODE(x) != PARK;
		for (q : 0 .. N - 1) {
			c = CODE(b[s].row[q]);
			if
			:: q < r && KEY(q) == KEY(r) && (c == AGAIN || c == DIES && HOLD || holds[q] && c != OK && c != DIES) -> yes = true
			:: else
			fi
		}
		if
		:: CODE(x) >= OK && !(yes && MINE(s, LANE(KEY(r)))) -> b[s].row[r] = 0
		:: else
		fi
	}
}
#endif

inline clear(s) {
	for (r : 0 .. N - 1) {
		b[s].row[r] = 0
	}
}

inline take(i, lane) {
	owner[lane] = i + 1;
	epoch[lane]++;
	b[i].ep[lane] = epoch[lane];
	flush();
#ifdef BLOCKED_IN_MEMORY
	blocked[i] = 0;
#endif
}

/* Everything that was committed is on the disk: after any commit that waits for it, and sooner or later. */
inline flush() {
#if CRASHES > 0
	for (q : 0 .. N - 1) {
		disk.st[q] = st[q];
		disk.rev[q] = rev[q];
		disk.att[q] = att[q];
		disk.holds[q] = holds[q]
	}
	for (q : 0 .. LANES - 1) {
		disk.owner[q] = owner[q];
		disk.epoch[q] = epoch[q];
#ifdef BOUND
		disk.reopened[q] = reopened[q]
#endif
	}
#ifdef BOUND
	;
	disk.seq = seq
#endif
	;
#endif
	skip
}

#ifdef ASYNC_WRITE
#define durable() skip
#else
#define durable() flush()
#endif

#if CRASHES > 0
/* Transactions that are open are rolled back, and a seq that is not on the disk is given out again. */
inline crash() {
	for (q : 0 .. N - 1) {
		st[q] = disk.st[q];
#ifdef BOUND
		st[q] = (st[q] == NONE && q < disk.seq -> VOID : st[q]);
#endif
		rev[q] = disk.rev[q];
		att[q] = disk.att[q];
		holds[q] = disk.holds[q]
	}
	for (q : 0 .. LANES - 1) {
		owner[q] = disk.owner[q];
		epoch[q] = disk.epoch[q];
#ifdef BOUND
		reopened[q] = disk.reopened[q];
#ifndef KEEP_BOUND
		low[q] = 0;
		known[q] = 0
#endif
#endif
	}
#ifdef BOUND
	;
	seq = disk.seq;
	locked = 0;
	lockedW = 0;
	open = 0;
	openW = 0;
#ifndef KEEP_BOUND
	upTo = 0;
	grace = 0;
	safe = 0
#endif
#endif
}
#endif

/*
 * From here on nothing fails and nobody else moves: does this relay bring every row to its end? The check is made in every
 * state in which some relay is between two batches. Then the state is thrown away.
 */
inline close(i) {
	for (l : 0 .. LANES - 1) {
		if
		:: !MINE(i, l) -> take(i, l)
		:: else
		fi
	}
	for (turn : 0 .. 5 * N) {
#if SWEEP
		for (l : 0 .. KEYS - 1) {
			unpark(l, UNPARK, BY_SWEEP)
		}
#endif
#ifdef BOUND
		if
		:: !locked && !lockedW && !open -> safe = seq
		:: else
		fi;
#endif
		pick = 0;
		first = 0;
		for (r : 0 .. N - 1) {
			if
			:: st[r] == RETRY && first < LIMIT ->
				pick = pick | (1 << r);
				first++
			:: else
			fi
		}
		for (r : 0 .. N - 1) {
			if
			:: READABLE(i, r) && first < LIMIT ->
				pick = pick | (1 << r);
				first++
			:: else
			fi
		}
		if
#if FULL
		:: pick == 0 && !wide -> wide = true
		:: pick == 0 && wide -> break
#else
		:: pick == 0 -> break
#endif
		:: else
		fi;
		read(i);
#ifdef BOUND
		if
		:: pick -> learn(i); wide = false
		:: else
		fi;
#endif
		for (r : 0 .. N - 1) {
			if
			:: SENT(b[i].row[r]) ->
				store(r);
				b[i].row[r] = (b[i].row[r] & 248) | OK
			:: else
			fi
		}
		settle(i);
#ifdef UNPARK_SECOND
		for (l : 0 .. KEYS - 1) {
			if
			:: pending[i] & (1 << l) -> unpark(l, UNPARK, BY_SETTLEMENT)
			:: else
			fi
		}
		pending[i] = 0;
#endif
		clear(i)
	}
	for (r : 0 .. N - 1) {
		not_stuck = st[r] != PARKED;
		for (q : 0 .. N - 1) {
			if
			:: q < r && KEY(q) == KEY(r) && st[q] == DEAD && holds[q] -> not_stuck = true
			:: else
			fi
		}
		assert(not_stuck);
		not_lost = st[r] != READY && st[r] != RETRY && (st[r] != GONE || stored[r]);
		assert(not_lost)
	}
	forget()
}

inline forget() {
	closed = true;
	for (r : 0 .. N - 1) {
		st[r] = VOID;
		rev[r] = 0;
		att[r] = 0;
		holds[r] = false;
		stored[r] = false;
		late[r] = false;
		exempt[r] = false;
		refused[r] = 0;
		for (q : 0 .. RELAYS) {
			b[q].row[r] = 0
		}
	}
	for (l : 0 .. LANES - 1) {
		owner[l] = 0;
		epoch[l] = TAKES;
		for (q : 0 .. RELAYS) {
			b[q].ep[l] = 0
		}
	}
	ghost = 0;
	givenUp = GIVEN_UP;
	refusals = REFUSALS;
	outages = OUTAGES;
	spared = SPARED;
	verbs = VERBS;
	rollbacks = 0;
#if CRASHES > 0
	crashes = CRASHES;
	flush();
#endif
	pick = 0
#ifdef BOUND
	;
	for (l : 0 .. LANES - 1) {
		low[l] = 0;
		known[l] = 0;
		reopened[l] = 0
	}
	seq = 0;
	locked = 0;
	lockedW = 0;
	open = 0;
	openW = 0;
	upTo = 0;
	grace = 0;
	safe = 0;
	wide = false
#endif
#ifdef TWO_SNAPSHOTS
	;
	for (q : 0 .. RELAYS - 1) {
		asked[q] = 0
	}
#endif
#ifdef BY_XID
	;
	xid = 0
#endif
#ifdef UNPARK_SECOND
	;
	for (q : 0 .. RELAYS) {
		pending[q] = 0
	}
#endif
#ifdef BLOCKED_IN_MEMORY
	;
	for (q : 0 .. RELAYS - 1) {
		blocked[q] = 0
	}
#endif
}

proctype Relay(byte i) {
	byte n;
end_idle:
	if
	:: atomic { !closed && epoch[0] >= i && epoch[0] < TAKES -> d_step { take(i, 0) } }; goto end_idle
#if LANES > 1
	:: atomic { !closed && epoch[1] < TAKES -> d_step { take(i, 1) } }; goto end_idle
#endif
#ifdef TWO_SNAPSHOTS
	:: d_step { !closed -> asked[i] = (reopened[0] != known[0] -> 0 : low[0]) }; goto end_idle
#endif
	:: atomic { /* Read: of ready rows the first ones of a lane, of retries those that are due */
		!closed && b[i].ep[0] + b[i].ep[LANES - 1] > 0 ->
		at = 0;
#ifdef BOUND
		if
		:: learns = true
		:: skip
		fi;
#endif
#if FULL
		if
		:: wide = true
		:: skip
		fi;
#endif
		do
		:: at < N ->
			if
			:: b[i].ep[LANE(KEY(at))] && !(stop & (1 << LANE(KEY(at)))) && READABLE(i, at) ->
				if
				:: pick = pick | (1 << at)
				:: stop = stop | (1 << LANE(KEY(at))) /* the limit */
				fi
			:: b[i].ep[LANE(KEY(at))] && st[at] == RETRY ->
				if
				:: pick = pick | (1 << at)
				:: skip /* not due, or due and left out by the limit */
#ifdef CUT_HEAD
				:: cut = cut | (1 << at)
#endif
				fi
			:: else
			fi;
			at++
		:: else -> break
		od;
		skip;
		d_step {
			read(i);
#ifdef BOUND
			if
			:: learns -> learn(i)
			:: else
			fi;
			learns = false;
			wide = false;
#endif
			pick = 0;
			cut = 0;
			stop = 0;
			at = 0
		};
		n = 0;
#if SPARED > 0
		do /* topics that rest */
		:: n < N && spared < SPARED && SENT(b[i].row[n]) -> spared++; d_step { aside(i, n); skip }; n++
		:: n < N -> n++
		:: else -> n = 0; break
		od;
#endif
		do
		:: n < N && b[i].row[n] == 0 -> n++
		:: n < N && b[i].row[n] != 0 -> n = 0; goto publish
		:: n == N -> n = 0; goto end_idle
		od
	}
	:: atomic { !closed -> d_step { close(i); skip } }; goto end_idle
	fi;
publish:
	atomic {
		do
		:: n < N && !SENT(b[i].row[n]) -> n++
		:: else -> break
		od;
		if
		:: n == N -> n = 0; goto ask
		:: n < N -> d_step { store(n); b[i].row[n] = (b[i].row[n] & 248) | OK }
		:: n < N && refusals < REFUSALS -> refusals++; d_step { refuse(i, n); skip }
#if SPARED > 0
		:: n < N && spared < SPARED -> spared++; d_step { aside(i, n); skip } /* no route */
#endif
		:: n < N && outages < OUTAGES ->
			outages++;
			if
			:: skip
			:: d_step { store(n) }
			:: late[n] = true
			fi;
			d_step { drop(i, n, 0); b[i].row[n] = 0 }
		:: n < N && STOPS -> /* it is told to stop, or finds its lease over */
			d_step {
				for (r : 0 .. N - 1) {
					if
					:: SENT(b[i].row[r]) -> b[i].row[r] = 0
					:: else
					fi
				};
				skip
			}
		fi;
		n = 0
	};
	goto publish;
ask:
#ifdef NO_LANE_LOCK
	atomic { true; d_step { decide(i); skip } };
write:
#endif
	if
	:: atomic { d_step { settle(i); skip };
		if
		:: goto answered
#ifndef NO_LANE_LOCK
		:: goto ask /* the reply is lost */
#endif
		fi }
	:: atomic { givenUp < GIVEN_UP && !closed ->
		givenUp++;
		d_step {
			ghost = i + 1;
			for (r : 0 .. N - 1) {
				b[GHOST].row[r] = b[i].row[r]
			}
			for (l : 0 .. LANES - 1) {
				b[GHOST].ep[l] = b[i].ep[l]
			};
			skip
		} }
	:: goto answered /* it never arrived */
	fi;
answered:
	atomic { true; d_step { clear(i); skip } };
#ifdef UNPARK_SECOND
	d_step {
		for (l : 0 .. KEYS - 1) {
			if
			:: pending[i] & (1 << l) && MINE(i, LANE(l)) -> unpark(l, UNPARK, BY_SETTLEMENT)
			:: else
			fi
		}
		pending[i] = 0
	};
#endif
	goto end_idle
}

#if GIVEN_UP > 0
/* The request that nobody waits for. */
proctype Ghost() {
end:
	do
	:: d_step { ghost -> settle(GHOST); skip }
	:: d_step { ghost -> clear(GHOST); ghost = 0; for (l : 0 .. LANES - 1) { b[GHOST].ep[l] = 0 } ; skip }
	od
}
#endif

#if CRASHES > 0
proctype Server() {
end_server:
	do
	:: d_step { !closed && crashes < CRASHES -> flush() }
	:: d_step { !closed && crashes < CRASHES -> crashes++; crash(); skip }
	od
}
#endif

#if SWEEP
proctype Sweeper() {
end:
	do
	:: d_step { owner[LANE(0)] -> unpark(0, UNPARK, BY_SWEEP); skip }
#if KEYS > 1
	:: d_step { owner[LANE(1)] -> unpark(1, UNPARK, BY_SWEEP); skip }
#endif
	od
}
#endif

#ifdef BOUND
#ifdef TWO_KEYS
#define OTHERS(m) (KEY(m) -> open & 2 : open & 253) /* open ones of its key */
#else
#define OTHERS(m) open
#endif
#define TAKES_SEQ (!COMMON_LOCK || !OTHERS(seq))
#define OPENED ((open & 1) + (open >> 1 & 1) + (open >> 2 & 1) + (open >> 3 & 1))
#ifdef BY_XID
#define MAY_END(m) (!closed && open & xid & (1 << (m)))
#else
#define MAY_END(m) (!closed && open & (1 << (m)))
#endif
inline ends(m, to) {
	st[m] = to;
	open = open & ~(1 << m);
	openW = openW & ~(1 << m)
}
#define WRITE(m) \
	:: d_step { MAY_END(m) -> ends(m, READY); durable() } \
	:: d_step { MAY_END(m) && rollbacks < ROLLBACKS -> rollbacks++; ends(m, VOID) }
#define LOCK \
	:: d_step { !closed && locked + lockedW + OPENED < WRITERS && seq + locked + lockedW < N -> locked++ } \
	:: d_step { locked && TAKES_SEQ -> locked--; open = open | (1 << seq); seq++ } \
	:: d_step { lockedW && TAKES_SEQ -> lockedW--; open = open | (1 << seq); openW = openW | (1 << seq); seq++ }

/* H, then W, then all of W have ended. */
proctype Horizon() {
end_horizon:
	do
	:: d_step { !closed && grace == 0 && seq > safe ->
		grace = 1;
#ifdef W_FIRST
		lockedW = locked; locked = 0; openW = open
#else
		upTo = seq
#endif
	}
	:: d_step { grace == 1 ->
		grace = 2;
#ifdef W_FIRST
		upTo = seq
#else
#ifdef BY_XID
		openW = open & xid
#else
		lockedW = locked; locked = 0; openW = open
#endif
#endif
	}
	:: d_step { grace == 2 && !lockedW && !openW -> safe = upTo; upTo = 0; grace = 0 }
	od
}
#else
#define LOCK
#define BEFORE(m, o) ((m) <= (o) || KEY(o) != KEY(m) || st[o] != NONE || !COMMON_LOCK)
#if N > 3
#define MAY(m) (!closed && st[m] == NONE && BEFORE(m, 0) && BEFORE(m, 1) && BEFORE(m, 2))
#elif N > 2
#define MAY(m) (!closed && st[m] == NONE && BEFORE(m, 0) && BEFORE(m, 1))
#else
#define MAY(m) (!closed && st[m] == NONE && BEFORE(m, 0))
#endif
#define WRITE(m) \
	:: d_step { MAY(m) -> st[m] = READY; durable() } \
	:: d_step { MAY(m) && rollbacks < ROLLBACKS -> rollbacks++; st[m] = VOID }

#endif

/* Transactions of the service. Those of different keys commit in any order. */
proctype Writer() {
end:
	do
	LOCK
	WRITE(0)
	WRITE(1)
#if N > 2
	WRITE(2)
#endif
#if N > 3
	WRITE(3)
#endif
#ifdef BY_XID
	:: d_step { !closed && (open & ~xid) -> xid = xid | (open & ~xid & -(open & ~xid)) } /* the INSERT has its seq and comes to its row */
#endif
	od
}

/* Requests that were given up and arrive after all. */
#if OUTAGES > 0
proctype Network() {
end:
	do
	:: d_step { late[0] -> late[0] = false; store(0) }
	:: d_step { late[1] -> late[1] = false; store(1) }
#if N > 2
	:: d_step { late[2] -> late[2] = false; store(2) }
#endif
#if N > 3
	:: d_step { late[3] -> late[3] = false; store(3) }
#endif
	od
}
#endif

#if PERSONS > 0
#ifdef VERB_WITHOUT_LOCK
/* What waits behind m, as a transaction sees it that does not wait for the lane's lock. */
inline look(m) {
	look_ = 0;
	yes = true;
	for (q : 0 .. N - 1) {
		if
		:: KEY(q) == KEY(m) && q != m && holds[q] -> yes = false
		:: KEY(q) == KEY(m) && yes && st[q] == PARKED -> look_ = look_ | (1 << q)
		:: else
		fi
	}
}
inline behind(m) {
	for (q : 0 .. N - 1) {
		if
		:: look_ & (1 << q) && st[q] == PARKED -> st[q] = READY; rev[q]++
		:: else
		fi
	}
	look_ = 0
}
byte look_;
#else
#define behind(m) unpark(KEY(m), UNPARK, BY_PERSON)
#endif

#if N > 2
#define ANY_DEAD (st[0] == DEAD || st[1] == DEAD || st[2] == DEAD)
#else
#define ANY_DEAD (st[0] == DEAD || st[1] == DEAD)
#endif

/* A person looks at a dead row and decides later. */
proctype Person() {
	byte m, seen;
	bool looking;
end:
	do
	:: atomic { !closed && !looking && verbs < VERBS && ANY_DEAD ->
		verbs++;
		if
		:: st[0] == DEAD -> m = 0
		:: st[1] == DEAD -> m = 1
#if N > 2
		:: st[2] == DEAD -> m = 2
#endif
		fi;
		seen = rev[m];
		looking = true
#ifdef VERB_WITHOUT_LOCK
		;
		d_step { look(m); skip }
#endif
	}
	:: atomic { looking && st[m] == DEAD && rev[m] == seen ->
		if
		:: d_step { /* retry */
			st[m] = RETRY;
			holds[m] = true;
			rev[m]++ }
		:: d_step { /* skip */
			leave(m, SKIPPED);
			exempt[m] = true;
			behind(m); skip }
		:: d_step { /* release */
			holds[m] = false;
			exempt[m] = true;
			rev[m]++;
			behind(m); skip }
#ifdef BY_HAND
		:: d_step { /* no verb: the row is made ready, and not counted */
			st[m] = READY;
			holds[m] = false;
			exempt[m] = true;
			rev[m]++ }
#endif
		fi;
		looking = false;
		m = 0;
		seen = 0 }
	:: atomic { looking && (st[m] != DEAD || rev[m] != seen) -> looking = false; m = 0; seen = 0 }
	od
}
#endif

init {
	atomic {
		run Relay(0);
		run Relay(1);
#if RELAYS > 2
		run Relay(2);
#endif
		run Writer();
#ifdef BOUND
		run Horizon();
#endif
#if SWEEP
		run Sweeper();
#endif
#if CRASHES > 0
		run Server();
#endif
#if GIVEN_UP > 0
		run Ghost();
#endif
#if OUTAGES > 0
		run Network();
#endif
#if PERSONS > 0
		run Person();
#endif
#if PERSONS > 1
		run Person();
#endif
	}
}
