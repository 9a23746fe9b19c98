package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Duty is what a program does with the library's tables. A role that has one may do that, and nothing else to them.
type Duty string

// The duties. A service whose messenger also runs needs Write and Relay, one on RocketMQ needs Check.
const (
	// Write is Transact and Enqueue of the local table: it adds messages, with what is the writer's to say, and can neither see
	// nor change one. What belongs to the relay (place in the order, times, attempts, state) it cannot set; a wrong lane, which it can,
	// costs the order of the keys that it is given for.
	Write Duty = "write"
	// Relay is Run of the local table. Its role becomes the owner of the archive of delivered messages, since PostgreSQL lets
	// nobody else make and drop the partitions, and may create tables in the schema: let all relays of a database use one role.
	Relay Duty = "relay"
	// Operate is a person's verbs on messages that are not delivered, and their audit, of which it can change nothing.
	Operate Duty = "operate"
	// Check is Transact and Run of RocketMQ: the records of half messages.
	Check Duty = "check"
	// Consume is a consumer's inbox and its dead letters.
	Consume Duty = "consume"
)

var grants = map[Duty][]string{
	Write: {
		`GRANT INSERT (lane, destination, id, topic, key, type, sequence, headers, body) ON txmsg_ready TO $role`,
		`GRANT INSERT ON txmsg_message TO $role`,
		`GRANT INSERT (destination, id, topic, key, type, sequence, headers, body, due_at) ON txmsg_held TO $role`,
		`GRANT USAGE ON SEQUENCE txmsg_ready_seq_seq TO $role`,
	},
	Relay: {
		`GRANT SELECT, INSERT, DELETE ON txmsg_ready TO $role`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON txmsg_held, txmsg_instance TO $role`,
		`GRANT SELECT, UPDATE ON txmsg_lane TO $role`,
		`GRANT SELECT, INSERT ON txmsg_incarnation TO $role`,
		`GRANT SELECT ON SEQUENCE txmsg_ready_seq_seq TO $role`,
		`GRANT CREATE ON SCHEMA $schema TO $role`,
		`ALTER TABLE txmsg_delivered OWNER TO $role`,
	},
	Operate: {
		`GRANT SELECT, UPDATE, DELETE ON txmsg_held TO $role`,
		`GRANT INSERT ON txmsg_ready TO $role`,
		`GRANT SELECT, UPDATE ON txmsg_lane TO $role`,
		`GRANT SELECT, INSERT ON txmsg_audit TO $role`,
	},
	Check: {
		`GRANT SELECT ON txmsg_identity TO $role`,
		`GRANT SELECT, INSERT, DELETE ON txmsg_half TO $role`,
	},
	Consume: {
		`GRANT SELECT, INSERT, UPDATE, DELETE ON txmsg_inbox, txmsg_dead_letter TO $role`,
	},
}

// Grant lets role do its duties with the tables of this schema. It may be called again, and must be after a Migrate that
// adds tables. The connection's own role must own the tables and, for Relay, be a member of role.
func (db *DB) Grant(ctx context.Context, role string, duties ...Duty) error {
	var statements []string
	for _, duty := range duties {
		if grants[duty] == nil {
			return fmt.Errorf("postgres: duty must be one of %q, got %q", []Duty{Write, Relay, Operate, Check, Consume}, duty)
		}
		statements = append(statements, grants[duty]...)
	}
	if err := db.grant(ctx, role, statements, slices.Contains(duties, Relay)); err != nil {
		return fmt.Errorf("postgres: grant to %q: %w", role, err)
	}
	return nil
}

func (db *DB) grant(ctx context.Context, role string, statements []string, archive bool) error {
	schema := db.schema
	if schema == "" {
		if err := db.pool.QueryRow(ctx, `SELECT current_schema()`).Scan(&schema); err != nil {
			return err
		}
	}
	statements = append([]string{`GRANT USAGE ON SCHEMA $schema TO $role`}, statements...)
	if archive {
		partitions, _, err := db.partitions(ctx)
		if err != nil {
			return err
		}
		for _, name := range partitions {
			statements = append(statements, `ALTER TABLE `+name+` OWNER TO $role`)
		}
	}
	names := strings.NewReplacer("$role", pgx.Identifier{role}.Sanitize(), "$schema", pgx.Identifier{schema}.Sanitize())
	return db.pipeline(ctx, func(batch *pgx.Batch) {
		for _, statement := range statements {
			batch.Queue(names.Replace(db.sql(statement)))
		}
	})
}
