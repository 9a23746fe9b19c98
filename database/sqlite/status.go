package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// messageStatus takes the age of a delayed row from when it fell due. The destinations are a JSON array.
const messageStatus = `SELECT
	(SELECT count(*) FROM txmsg_message WHERE state = 'ready'),
	(SELECT count(*) FROM txmsg_message WHERE state IN ('waiting', 'retry') AND state = 'waiting'),
	(SELECT count(*) FROM txmsg_message WHERE state IN ('waiting', 'retry') AND state = 'retry'),
	(SELECT count(*) FROM txmsg_message WHERE state = 'parked'),
	(SELECT count(*) FROM txmsg_message WHERE state = 'dead'),
	` + now + ` - min(` + now + `,
		coalesce((SELECT min(created_at) FROM txmsg_message WHERE state = 'ready'), 9223372036854775807),
		coalesce((SELECT min(iif(state = 'waiting', due_at, created_at)) FROM txmsg_message
			WHERE state IN ('waiting', 'retry') AND due_at <= ` + now + `), 9223372036854775807)),
	(SELECT json_group_array(destination) FROM (SELECT destination FROM txmsg_message WHERE state = 'ready'
		UNION SELECT destination FROM txmsg_message WHERE state IN ('waiting', 'retry') ORDER BY 1))`

// Status implements [localtable.Store].
func (db *DB) Status(ctx context.Context) (localtable.Status, error) {
	var s localtable.Status
	var age int64
	var destinations []byte
	err := db.pool.QueryRowContext(ctx, messageStatus).Scan(&s.Ready, &s.Waiting, &s.Retry, &s.Parked, &s.Dead, &age, &destinations)
	if err == nil {
		err = json.Unmarshal(destinations, &s.Destinations)
	}
	if err != nil {
		return localtable.Status{}, fmt.Errorf("sqlite: count messages: %w", err)
	}
	s.OldestUnsent = time.Duration(age) * time.Millisecond
	return s, nil
}
