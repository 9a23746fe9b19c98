package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// record is what the bucket keeps for a group and topic. Whoever changes it names the revision that was read, so of two members
// that both believe they have the topic only one moves the group's position.
type record struct {
	Owner  string    `json:"owner"`  // "" when nobody has the topic
	Stream string    `json:"stream"` // and when it was created: a new stream of the same name counts from 1 again
	Made   time.Time `json:"made"`
	Seq    uint64    `json:"seq"` // all messages up to this one are acknowledged
}

// position is the group's, in the hands of the member that owns it.
type position struct {
	bucket    jetstream.KeyValue
	key       string
	owner     string // who writes through this value
	record    record
	revision  uint64
	timeout   time.Duration
	confirmed atomic.Uint64 // what the queue has settled

	mu sync.Mutex // one change at a time; guards record and revision
}

var errTakenOver = errors.New("another member has taken the topic over")

// acquire waits until the topic is free, or its owner has given no sign of life for the session time-out, and takes it. The
// time is measured here, by how long the record stays the same: no two clocks are compared.
func (m *member) acquire(ctx context.Context, bucket jetstream.KeyValue, stream *jetstream.StreamInfo) (*position, error) {
	p := &position{bucket: bucket, key: m.cfg.Group + "=" + m.topic, owner: m.owner, timeout: m.cfg.Timeout}
	var seen uint64
	var since time.Time
	for ctx.Err() == nil {
		taken, err := p.load(ctx)
		switch {
		case err != nil:
			return nil, err
		case taken && p.revision != seen:
			seen, since = p.revision, time.Now()
		}
		if !taken || time.Since(since) >= m.cfg.SessionTimeout {
			p.move(stream, m.cfg.Start)
			err := p.store(ctx)
			if err == nil {
				return p, nil
			}
			if !errors.Is(err, errTakenOver) {
				return nil, err
			}
		}
		sleep(ctx, min(waitInterval, m.cfg.SessionTimeout/5))
	}
	return nil, ctx.Err()
}

// load reads the record and reports whether someone else owns it.
func (p *position) load(ctx context.Context) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	entry, err := p.bucket.Get(ctx, p.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		p.record, p.revision = record{}, 0
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the group's position: %w", err)
	}
	p.revision, p.record = entry.Revision(), record{}
	if err := json.Unmarshal(entry.Value(), &p.record); err != nil {
		return false, fmt.Errorf("read the group's position %q in bucket %q: %w", p.key, p.bucket.Bucket(), err)
	}
	return p.record.Owner != "" && p.record.Owner != p.owner, nil
}

// move makes the record one of this stream.
func (p *position) move(stream *jetstream.StreamInfo, start string) {
	name, made := stream.Config.Name, stream.Created.UTC()
	if p.record.Stream != name || !p.record.Made.Equal(made) {
		fresh := p.record.Stream == ""
		p.record = record{Stream: name, Made: made}
		if fresh && start == "newest" {
			p.record.Seq = stream.State.LastSeq
		}
	}
	p.confirmed.Store(p.record.Seq)
}

// store writes the position, and so that its owner lives.
func (p *position) store(ctx context.Context) error { return p.save(ctx, p.owner) }

// release stores the position for good and frees the topic, if it is still owned. Should that fail, the next owner begins
// where the position was last stored.
func (p *position) release(ctx context.Context) error { return p.save(ctx, "") }

// save also runs at the end, when the caller's context is over.
func (p *position) save(ctx context.Context, owner string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	next := p.record
	next.Owner, next.Seq = owner, p.confirmed.Load()
	err := p.write(ctx, next)
	if !conflict(err) {
		return err
	}
	// The change in the way is an own one, if its reply was lost: owners are unique.
	before := p.record
	if _, err := p.load(ctx); err != nil {
		p.record = before
		return err
	}
	if p.record.Owner != p.owner {
		return errTakenOver
	}
	if err = p.write(ctx, next); conflict(err) {
		return errTakenOver
	}
	return err
}

func (p *position) write(ctx context.Context, next record) error {
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	var revision uint64
	if p.revision == 0 {
		revision, err = p.bucket.Create(ctx, p.key, value)
	} else {
		revision, err = p.bucket.Update(ctx, p.key, value, p.revision)
	}
	if err != nil {
		return fmt.Errorf("store the group's position: %w", err)
	}
	p.record, p.revision = next, revision
	return nil
}

func conflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists)
}
