package localtable

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Probes of a broker that does not answer: how often, and with how many rows.
const (
	firstProbe = time.Second
	lastProbe  = 15 * time.Second
	probeTopic = 8  // rows of each topic that rests
	probeAll   = 16 // rows of all topics, when nothing answers
	rampStart  = 16 // rows of a batch after an outage; four times as many after each batch that is answered
	rampFactor = 4
)

// The least and the longest time that a row of a topic that rests is set aside.
const (
	restLeast = 15 * time.Second
	restMost  = 5 * time.Minute
)

// breaker keeps an outage from costing more than a few probes. A topic rests when the broker did not answer for
// one of its messages and answered for others, as when one leader of a cluster is away; the destination is open when
// nothing was answered. One probe is under way at a time.
type breaker struct {
	destination string
	batchSize   int
	log         *slog.Logger

	mu       sync.Mutex
	open     bool
	since    time.Time            // of open
	resting  map[string]time.Time // topics, since when; replaced, never changed
	failures int                  // probes and first failures in a row
	next     time.Time            // probe
	probing  bool
	ramp     int // rows a batch may hold; 0: no bound
	err      error
}

// pass is the leave for one batch. It is taken before the batch is read: what was resting then is left alone.
type pass struct {
	probe   bool
	open    bool
	resting map[string]time.Time
	limit   int
}

// admit returns a pass, or how long to wait.
func (b *breaker) admit() (pass, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	due := !b.probing && !now.Before(b.next)
	p := pass{open: b.open, resting: b.resting, limit: b.batchSize}
	switch {
	case b.open && !due:
		return pass{}, max(b.next.Sub(now), firstProbe/10)
	case b.open || len(b.resting) > 0 && due:
		p.probe, b.probing = true, true
	case b.ramp > 0 && len(b.resting) == 0: // rows of topics that rest would fill so few places
		p.limit = min(b.ramp, b.batchSize)
	}
	return p, 0
}

// answers are what became of a batch's messages, by topic. A topic may be in both.
type answers struct {
	answered, silent map[string]bool
	err              error // of a silent one
}

func newAnswers() answers { return answers{answered: map[string]bool{}, silent: map[string]bool{}} }

// report takes the answers of a batch; every pass is reported once, if only with no answers.
func (b *breaker) report(p pass, a answers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.probe {
		b.probing = false
	}
	switch {
	case len(a.answered) == 0 && len(a.silent) == 0:
	case len(a.answered) > 0:
		b.answered(a)
	case p.probe && !p.open && subset(a.silent, p.resting): // the others were not asked
		b.fail(a)
	case !b.open:
		b.open, b.since = true, time.Now()
		b.fail(a)
		b.log.Warn("broker does not answer", "destination", b.destination, "error", a.err)
	case p.probe:
		b.fail(a)
	}
}

func (b *breaker) fail(a answers) {
	b.failures++
	b.err = a.err
	wait := lastProbe
	if b.failures < 5 {
		wait = min(lastProbe, firstProbe<<(b.failures-1))
	}
	b.next = time.Now().Add(jitter(wait))
}

// answered closes the breaker; the topics that were silent rest.
func (b *breaker) answered(a answers) {
	resting := maps.Clone(b.resting)
	if b.open {
		b.log.Info("broker answers again", "destination", b.destination, "after", time.Since(b.since).Round(time.Millisecond))
		b.open, b.ramp, resting = false, rampStart, nil
	} else if b.ramp *= rampFactor; b.ramp >= b.batchSize {
		b.ramp = 0
	}
	for topic := range a.answered {
		delete(resting, topic)
	}
	for topic := range a.silent {
		since, rests := b.resting[topic]
		if !rests {
			since = time.Now()
			b.log.Warn("topic rests", "destination", b.destination, "topic", topic, "error", a.err)
		}
		if resting == nil {
			resting = map[string]time.Time{}
		}
		resting[topic] = since
	}
	b.resting = resting
	switch {
	case len(a.silent) > 0:
		b.failures = 0 // something is answered: the probes stay close together
		b.fail(a)
	case len(resting) == 0:
		b.failures, b.err = 0, nil
	}
}

func subset(these map[string]bool, those map[string]time.Time) bool {
	for topic := range these {
		if _, ok := those[topic]; !ok {
			return false
		}
	}
	return true
}

// state returns since when nothing is answered, zero if not so, and the topics that rest.
func (b *breaker) state() (since time.Time, resting []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		since = b.since
	}
	return since, slices.Sorted(maps.Keys(b.resting)), b.err
}

// selector chooses the rows of one batch that may be sent under its pass.
type selector struct {
	pass  pass
	sent  map[string]int // by topic
	total int
}

func (s *selector) allows(topic string) bool {
	_, rests := s.pass.resting[topic]
	switch {
	case s.pass.open:
		if s.total >= probeAll || s.sent[topic] >= probeTopic {
			return false
		}
	case rests:
		if !s.pass.probe || s.sent[topic] >= probeTopic {
			return false
		}
	default:
		return true
	}
	s.sent[topic]++
	s.total++
	return true
}
