package sqlite

import (
	"context"
	"fmt"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Notify implements [localtable.Store]: SQLite has no such means.
func (db *DB) Notify(context.Context) error { return errNoNotifications }

// Listen implements [localtable.Store]: SQLite has no such means.
func (db *DB) Listen(context.Context, func()) error { return errNoNotifications }

var errNoNotifications = fmt.Errorf("sqlite: notifications: %w", txmsg.ErrUnsupported)
