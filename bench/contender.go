package main

import "context"

// contender is one way to write messages along with a transaction and to send them on.
type contender struct {
	name string
	peer bool // a library that a user might take instead
	open func(db *database, out *sink) (subject, error)
}

// subject is a contender at work on one database.
type subject interface {
	// setup makes the tables.
	setup(ctx context.Context) error
	// write runs one transaction that inserts the order and its message.
	write(ctx context.Context, id int64) error
	// pendingSQL is a statement that writes the message of order i as write does.
	pendingSQL() string
	// relay sends what is written until ctx ends.
	relay(ctx context.Context) error
	close()
}

var (
	bare      = contender{name: "no message", open: openBare}
	hand      = contender{name: "hand-written", open: openHand(false)}
	keeping   = contender{name: "hand-written keeping", open: openHand(true)}
	logReader = contender{name: "log reader", open: openLog}

	us       = contender{name: "txmsg", open: openUs(false)}
	deleting = contender{name: "txmsg retention 0", open: openUs(true)}

	watermill  = contender{name: "watermill", peer: true, open: openWatermill}
	river      = contender{name: "river", peer: true, open: openRiver}
	oagudo     = contender{name: "oagudo", peer: true, open: openOagudo(false)}
	optimistic = contender{name: "oagudo optimistic", peer: true, open: openOagudo(true)}
)

// contenders by name, for the writer process.
func contenderNamed(name string) (contender, bool) {
	for _, c := range []contender{bare, hand, keeping, logReader, us, deleting, watermill, river, oagudo, optimistic} {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}
