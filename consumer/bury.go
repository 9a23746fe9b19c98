package consumer

import (
	"context"
	"errors"
	"slices"
	"strings"
)

const (
	maxErrors     = 10       // that a dead letter keeps
	maxErrorBytes = 16 << 10 // of each
)

// remember keeps err for the dead letter.
func (w *work[Tx]) remember(err error) {
	text := history(err)
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes]
	}
	if len(w.errors) == maxErrors {
		w.errors = slices.Delete(w.errors, 0, 1)
	}
	w.errors = append(w.errors, legible(text))
}

// bury writes the dead letter, as often as it takes: the message is not acknowledged before.
func (w *work[Tx]) bury(ctx context.Context) error {
	letter := w.letter()
	for {
		err := w.run.call(ctx, letter.Message.ID, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, w.run.cfg.HandlerTimeout)
			defer cancel()
			return w.run.store.Bury(ctx, letter)
		})
		switch {
		case err == nil:
			w.run.metrics.buried.Add(ctx, 1, w.labels)
			w.run.cfg.Logger.Error("message buried", w.facts("attempts", w.attempts, "error", firstLine(letter.Errors))...)
			return nil
		case errors.Is(err, errAbandoned), closed(w.run.cancelled), ctx.Err() != nil:
			return err
		}
		if !w.waitFor(ctx, databaseAway, err) {
			return errStopping
		}
	}
}

// letter is the message as a store can keep it: a text that no database takes would hold up the messages behind it for ever.
func (w *work[Tx]) letter() DeadLetter {
	m, s := w.delivery.Message.Clone(), w.delivery.Source
	for _, text := range []*string{&m.ID, &m.Topic, &m.Key, &m.Type, &s.Broker, &s.Topic, &s.Partition} {
		*text = legible(*text)
	}
	if m.Headers != nil {
		headers := make(map[string]string, len(m.Headers))
		for name, value := range m.Headers {
			headers[legible(name)] = legible(value)
		}
		m.Headers = headers
	}
	return DeadLetter{Consumer: w.run.cfg.Name, Message: m, Source: s, Attempts: w.attempts, Errors: w.errors}
}

// legible replaces what is not UTF-8, and NUL.
func legible(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func firstLine(errors []string) string {
	line, _, _ := strings.Cut(errors[len(errors)-1], "\n")
	return line
}
