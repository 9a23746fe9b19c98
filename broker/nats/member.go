package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/txmsg/txmsg-go/broker/internal/dispatch"
)

// member is one Run of a Subscriber, for one topic.
type member struct {
	cfg   SubscriberConfig
	conn  *nats.Conn
	js    jetstream.JetStream
	pool  *dispatch.Pool
	owner string
	topic string
}

// errWrongStream ends a Run: the topic's stream is not one to read from.
var errWrongStream = errors.New("must keep messages by limits")

const (
	waitInterval = 500 * time.Millisecond
	reminder     = 30 * time.Second
)

// run has the topic whenever it can, until ctx ends.
func (m *member) run(ctx context.Context) error {
	var wait complaint
	for ctx.Err() == nil {
		err := m.once(ctx)
		if errors.Is(err, errWrongStream) {
			return err
		}
		if ctx.Err() == nil && err != nil {
			wait.say(m, "nats subscriber waits", err)
			sleep(ctx, waitInterval)
		}
	}
	return nil
}

// once waits for its turn, has the topic, and gives it up.
func (m *member) once(ctx context.Context) error {
	stream, err := m.stream(ctx)
	if err != nil {
		return err
	}
	bucket, err := m.bucket(ctx, stream)
	if err != nil {
		return err
	}
	position, err := m.acquire(ctx, bucket, stream)
	if err != nil {
		return err
	}
	return m.own(ctx, position)
}

// own reads and delivers, and stores the position as it goes on, until ctx ends, or another member has taken the topic, or the
// stream is another one. Signs of life go on until the last call has finished: only then may another begin.
func (m *member) own(ctx context.Context, position *position) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newReader(m, position)
	ended := make(chan error, 1)
	go func() {
		err := r.run(ctx)
		r.queue.Stop()
		ended <- err
	}()
	tick := time.NewTicker(m.cfg.CommitInterval)
	defer tick.Stop()
	var unstored complaint
	for {
		select {
		case err := <-ended:
			if errors.Is(err, errTakenOver) {
				return err
			}
			if failed := position.release(ctx); failed != nil {
				m.cfg.Logger.Warn("nats topic not released, others wait for the session timeout",
					"group", m.cfg.Group, "topic", m.topic, "error", failed)
			}
			return err
		case <-tick.C:
			err := position.store(ctx)
			if errors.Is(err, errTakenOver) {
				cancel()
				<-ended
				return err
			}
			unstored.say(m, "nats position not stored", err)
		}
	}
}

// stream finds the topic's stream.
func (m *member) stream(ctx context.Context) (*jetstream.StreamInfo, error) {
	if !m.conn.IsConnected() {
		if err := m.conn.LastError(); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotConnected, err)
		}
		return nil, errNotConnected
	}
	name, err := m.js.StreamNameBySubject(ctx, m.topic)
	if err != nil {
		return nil, fmt.Errorf("find the topic's stream: %w", err)
	}
	stream, err := m.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find stream %q: %w", name, err)
	}
	info := stream.CachedInfo()
	if retention := info.Config.Retention; retention != jetstream.LimitsPolicy {
		return nil, fmt.Errorf("nats: stream %q of topic %q %w, got %v retention", name, m.topic, errWrongStream, retention)
	}
	return info, nil
}

// bucket finds the bucket of positions, or creates it as durable as the stream.
func (m *member) bucket(ctx context.Context, stream *jetstream.StreamInfo) (jetstream.KeyValue, error) {
	bucket, err := m.js.KeyValue(ctx, m.cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = m.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: m.cfg.Bucket, Description: "positions of consumer groups", History: 1, Replicas: stream.Config.Replicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			bucket, err = m.js.KeyValue(ctx, m.cfg.Bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %q: %w", m.cfg.Bucket, err)
	}
	return bucket, nil
}

// complaint is a log line that would repeat itself: it is said when it is new, and now and then again.
type complaint struct {
	text string
	at   time.Time
}

func (c *complaint) say(m *member, phrase string, err error) {
	if err == nil {
		*c = complaint{}
		return
	}
	if text := err.Error(); text != c.text || time.Since(c.at) > reminder {
		c.text, c.at = text, time.Now()
		m.cfg.Logger.Warn(phrase, "group", m.cfg.Group, "topic", m.topic, "error", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
