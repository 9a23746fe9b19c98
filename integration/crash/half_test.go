package crash

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/rocketmq"
)

// runRocketMQ writes and answers checks until the process is killed or ctx ends.
func runRocketMQ(ctx context.Context, p plan, probe *probe) error {
	db, done, err := connect(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	m, err := rocketmq.New(halfStore[pgx.Tx]{db, probe}, rocketmq.Config{
		NameServers: []string{p.Broker}, Group: p.Group, Topics: []string{p.Topic}, DrainTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		// Nobody acknowledges a settlement: a message is in flight at least until Transact has returned.
		writers(ctx, probe, m, writePostgres, func(error) bool { return true })
	})
	err = m.Run(ctx)
	beside.Wait()
	return err
}
