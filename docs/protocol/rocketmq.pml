/*
 * The half-message backend: record, half, COMMIT, settlement, and the fence that answers the broker's checks.
 *
 * One message, two runs of its transaction at most, the first with a second try of storing. The service may be killed
 * between any two steps, its session may end at any time, COMMIT may take effect late, the storing of a half and
 * the settlement may be lost or arrive late, and two checks may ask at once.
 */

#ifndef CHECKS
#define CHECKS 2         /* that may be under way at once */
#endif
#define HALVES 3         /* 0: first try, 1: second try of the same run, 2: second run */
#define RUN(h) ((h) / 2)

/* a half in the broker */
#define ABSENT    0
#define SENT      1      /* on the wire */
#define STORED    2
#define DELIVERED 3
#define DROPPED   4
byte half[HALVES];

/* its row in the database */
#define NONE      0
#define OPEN      1      /* written by a transaction that has not ended */
#define WITHDRAWN 2      /* written and deleted by it */
#define COMMITTED 3
#define TOMBSTONE 4
byte row[HALVES];

/* a transaction; LANDING: COMMIT is on the wire */
#define IDLE     0
#define ACTIVE   1
#define LANDING  2
#define DONE     3
#define UNDONE   4
byte tx[2];

/* answers; what is on its way to the broker */
#define UNKNOWN  0
#define COMMIT   1
#define ROLLBACK 2
byte settling[HALVES];
bool told[HALVES];       /* somebody was told Rollback */
byte returned;           /* what Transact returned: COMMIT is nil, ROLLBACK a definite error */

hidden byte h, no_ghost, not_lost, once, one_answer, honest;

/*
 * A committed half is never told Rollback, and the broker has it: delivered, or stored, and then its checks go on until the
 * fence says Commit, which it does as soon as the database answers.
 */
inline sound(m) {
	one_answer = !(told[m] && row[m] == COMMITTED);
	assert(one_answer);
	not_lost = row[m] != COMMITTED || half[m] == STORED || half[m] == DELIVERED;
	assert(not_lost)
}

inline end(t, committed) {
	for (h : 0 .. HALVES - 1) {
		if
		:: RUN(h) == t && row[h] == OPEN -> row[h] = (committed -> COMMITTED : NONE)
		:: RUN(h) == t && row[h] == WITHDRAWN -> row[h] = NONE
		:: else
		fi
	}
	tx[t] = (committed -> DONE : UNDONE);
	for (h : 0 .. HALVES - 1) {
		sound(h)
	}
}

/* The broker is told; only a half that is stored can change. */
inline answer(m, what) {
	if
	:: what == ROLLBACK -> told[m] = true
	:: else
	fi;
	if
	:: half[m] == STORED && what == COMMIT ->
		no_ghost = tx[RUN(m)] == DONE && row[m] == COMMITTED;
		assert(no_ghost);
		half[m] = DELIVERED;
		once = (half[0] == DELIVERED) + (half[1] == DELIVERED) + (half[2] == DELIVERED) < 2;
		assert(once)
	:: half[m] == STORED && what == ROLLBACK -> half[m] = DROPPED
	:: else
	fi;
	sound(m)
}

/* Fence. verdict is what it returns; the tombstone's own commit may be unclear, and then it returns Unknown. */
inline fence(m, verdict) {
	if
	:: row[m] == OPEN || row[m] == WITHDRAWN -> verdict = UNKNOWN /* not within the time to wait */
#ifdef NO_TOMBSTONE
	:: row[m] != COMMITTED -> verdict = ROLLBACK
#else
#ifdef SAME_SNAPSHOT
	:: atomic { (row[m] == OPEN || row[m] == WITHDRAWN) -> /* the INSERT waits */
		(row[m] != OPEN && row[m] != WITHDRAWN) -> /* and the state is read as of before */
		verdict = ROLLBACK }
#endif
	:: atomic { row[m] == NONE -> row[m] = TOMBSTONE;
		if
		:: verdict = ROLLBACK
		:: verdict = UNKNOWN
		fi }
#endif
	:: row[m] == TOMBSTONE -> verdict = ROLLBACK
	:: row[m] == COMMITTED -> verdict = COMMIT
	:: verdict = UNKNOWN /* the database fails, or is not asked */
	fi
}

proctype Service() {
	byte m, verdict;
	bool again;
begin:
	tx[RUN(m)] = ACTIVE;
record:
	/* attempt.Publish, or the second try of attempt.replaceFailed; a row that is there stops the transaction */
	atomic {
		if
		:: tx[RUN(m)] == ACTIVE && row[m] == NONE -> row[m] = OPEN
		:: tx[RUN(m)] == ACTIVE && row[m] != NONE -> d_step { end(RUN(m), false); skip }; goto undone
		:: tx[RUN(m)] == UNDONE -> goto undone /* the session is gone */
		fi
	};
	if
	:: again ->
#ifndef KEEP_RECORD
		if
		:: atomic { tx[0] == ACTIVE -> row[0] = WITHDRAWN } /* Forget */
		:: tx[0] == UNDONE -> goto undone
		fi
#endif
	:: else
	fi;
	half[m] = SENT;
	if
	:: half[m] == STORED /* it is acknowledged */
	:: m == 0 -> m = 1; again = true; goto record /* no acknowledgement in time */
	:: m > 0 -> /* nor for the second */
		atomic { d_step { if :: tx[RUN(m)] == ACTIVE -> end(RUN(m), false) :: else fi; skip }; goto undone }
#ifdef COMMIT_UNSTORED
	:: half[m] == SENT
#endif
	fi;
	if
	:: atomic { tx[RUN(m)] == ACTIVE -> tx[RUN(m)] = LANDING }
	:: tx[RUN(m)] == UNDONE -> goto undone
	fi;
	if
	:: tx[RUN(m)] == DONE -> verdict = COMMIT /* the reply */
	:: tx[RUN(m)] == UNDONE -> goto undone /* an error of severity ERROR */
#ifdef UNCLEAR_IS_ROLLBACK
	:: verdict = ROLLBACK
#else
	:: do /* unclear: attempt.Resolve */
		:: fence(m, verdict);
			if
			:: verdict != UNKNOWN -> break
			:: true /* asked again */
			:: break /* its time is over */
			fi
		od
#endif
	fi;
	/* attempt.End: the halves in use are told the outcome, the one given up is always rolled back */
	atomic {
		if
		:: again -> settling[0] = ROLLBACK
		:: else
		fi;
		settling[m] = verdict;
		returned = verdict
	};
	goto out;
undone: /* for certain */
	atomic {
		if
		:: m == 1 -> settling[0] = ROLLBACK
		:: else
		fi;
		settling[m] = ROLLBACK;
		if
		:: m < 2 -> m = 2; again = false; goto begin /* a lost race or a deadlock: run again */
		:: returned = ROLLBACK
		fi
	};
out:
	atomic {
		honest = (returned != COMMIT || tx[0] == DONE || tx[1] == DONE) && (returned != ROLLBACK || tx[0] != DONE && tx[1] != DONE);
		assert(honest)
	}
}

/* SIGKILL: the service does nothing more, which it may do at any time anyway; its session ends. */
proctype Database() {
end_:
	do
	:: d_step { tx[0] == LANDING -> end(0, true); skip }
	:: d_step { tx[1] == LANDING -> end(1, true); skip }
	:: d_step { (tx[0] == ACTIVE || tx[0] == LANDING) -> end(0, false); skip }
	:: d_step { (tx[1] == ACTIVE || tx[1] == LANDING) -> end(1, false); skip }
	od
}

proctype Network() {
	byte m;
end_:
	do
	:: atomic { true -> select(m : 0 .. HALVES - 1);
		if
		:: half[m] == SENT -> half[m] = STORED
		:: half[m] == SENT -> half[m] = ABSENT
		:: settling[m] -> d_step { answer(m, settling[m]); settling[m] = UNKNOWN }
		:: settling[m] -> settling[m] = UNKNOWN
		:: else
		fi;
		m = 0 }
	od
}

/* A check: the broker asks about a half that is stored and gets the answer some time later. */
proctype Check() {
	byte m, verdict;
end_:
	do
	:: atomic { true -> select(m : 0 .. HALVES - 1);
		if
		:: half[m] == STORED
		:: else -> m = 0; goto end_
		fi };
		fence(m, verdict);
		d_step { answer(m, verdict); verdict = UNKNOWN; m = 0 }
	od
}

init {
	atomic {
		run Service();
		run Database();
		run Network();
#if CHECKS > 1
		run Check();
#endif
		run Check()
	}
}
