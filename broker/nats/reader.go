package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/txmsg/txmsg-go/broker/internal/dispatch"
)

// reader reads a topic's messages in the stream's order, each once, from a position on. It asks by consumers of its own that
// live no longer than it needs them; whenever something may have been lost on the way, it goes on with a new one
// behind the last message that it has.
type reader struct {
	member   *member
	position *position
	stream   string
	made     time.Time
	queue    *dispatch.Queue
	room     chan struct{}
	next     uint64
}

const (
	fetchMessages = 100
	fetchWait     = 5 * time.Second
	fetchBeat     = time.Second
	unusedAfter   = 30 * time.Second // the server drops a consumer that nobody asks
)

var (
	errOtherStream = errors.New("the topic's stream is not the one that was read")
	errGap         = errors.New("messages were lost on the way and are read again")
)

func newReader(m *member, p *position) *reader {
	r := &reader{
		member: m, position: p, stream: p.record.Stream, made: p.record.Made,
		room: make(chan struct{}, 1), next: p.record.Seq + 1,
	}
	r.queue = dispatch.NewQueue(m.pool, r.signal)
	return r
}

func (r *reader) signal() {
	select {
	case r.room <- struct{}{}:
	default:
	}
}

// run reads until ctx ends, the stream is another one, or another member has taken the topic over.
func (r *reader) run(ctx context.Context) error {
	var interrupted complaint
	for ctx.Err() == nil {
		consumer, err := r.open(ctx)
		if errors.Is(err, errOtherStream) || errors.Is(err, errWrongStream) || errors.Is(err, errTakenOver) {
			return err
		}
		if err == nil {
			err = r.read(ctx, consumer)
			r.drop(ctx, consumer)
		}
		if err != nil && ctx.Err() == nil {
			interrupted.say(r.member, "nats reading interrupted", err)
			sleep(ctx, waitInterval)
		}
	}
	return nil
}

// open makes a consumer behind what was read. It asks first whether the topic is still this member's: what came between may have
// taken long.
func (r *reader) open(ctx context.Context) (jetstream.Consumer, error) {
	if err := r.position.store(ctx); err != nil {
		return nil, err
	}
	stream, err := r.member.stream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, errOtherStream
	}
	if err != nil {
		return nil, err
	}
	if stream.Config.Name != r.stream || !stream.Created.Equal(r.made) {
		return nil, errOtherStream
	}
	if last := stream.State.LastSeq; r.next > last+1 {
		r.member.cfg.Logger.Warn("nats stream ends before the group's position, going on at its end",
			"stream", stream.Config.Name, "topic", r.member.topic, "last", last, "position", r.next-1)
		r.next = last + 1
	}
	return r.member.js.CreateConsumer(ctx, stream.Config.Name, jetstream.ConsumerConfig{
		FilterSubject:     r.member.topic,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.next,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: unusedAfter,
		MemoryStorage:     true,
		Replicas:          1,
	})
}

// read queues what consumer has until ctx ends or something is amiss.
func (r *reader) read(ctx context.Context, consumer jetstream.Consumer) error {
	limit := r.member.cfg.Buffer
	delivered := uint64(0)
	for r.awaitRoom(ctx, limit) {
		count := min(fetchMessages, limit)
		fetched, err := r.fetch(ctx, consumer, count, delivered)
		delivered += fetched
		if err != nil {
			return err
		}
		if fetched < uint64(count) && ctx.Err() == nil {
			// Nothing more came, or it was lost: only the server knows how much it has sent.
			info, err := consumer.Info(ctx)
			if err != nil {
				return err
			}
			if info.Delivered.Consumer != delivered {
				return errGap
			}
		}
	}
	return nil
}

// awaitRoom waits while the queue is full, and reports whether ctx still stands.
func (r *reader) awaitRoom(ctx context.Context, limit int) bool {
	for r.queue.Full(limit) {
		select {
		case <-ctx.Done():
			return false
		case <-r.room:
		}
	}
	return ctx.Err() == nil
}

// fetch queues at most count messages and returns how many came. delivered is how many came from consumer before.
func (r *reader) fetch(ctx context.Context, consumer jetstream.Consumer, count int, delivered uint64) (fetched uint64, err error) {
	fetchCtx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	batch, err := consumer.Fetch(count, jetstream.FetchContext(fetchCtx), jetstream.FetchHeartbeat(fetchBeat))
	if err != nil {
		return 0, err
	}
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			return fetched, nil
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fetched, fmt.Errorf("read a message's place: %w", err)
		}
		if meta.Sequence.Consumer != delivered+fetched+1 {
			return fetched, errGap
		}
		fetched++
		r.next = meta.Sequence.Stream + 1
		delivery := toDelivery(msg, meta)
		r.queue.Add(ctx, delivery.Message.Key, delivery, func() { r.position.confirmed.Store(meta.Sequence.Stream) })
	}
	if err := batch.Error(); err != nil && fetchCtx.Err() == nil {
		return fetched, err
	}
	return fetched, nil
}

// drop frees the consumer on the server, which would do so itself after a while.
func (r *reader) drop(ctx context.Context, consumer jetstream.Consumer) {
	if !r.member.conn.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.member.js.DeleteConsumer(ctx, r.stream, consumer.CachedInfo().Name)
}
