package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger passes on the client's warnings and errors, which hold no message bodies. What it calls Info (each
// metadata request, each connection) is Debug to a service.
type clientLogger struct{ logger *slog.Logger }

func (l clientLogger) Level() kgo.LogLevel {
	switch {
	case l.logger.Enabled(context.Background(), slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.logger.Enabled(context.Background(), slog.LevelWarn):
		return kgo.LogLevelWarn
	case l.logger.Enabled(context.Background(), slog.LevelError):
		return kgo.LogLevelError
	default:
		return kgo.LogLevelNone
	}
}

func (l clientLogger) Log(level kgo.LogLevel, event string, keyvals ...any) {
	severity := slog.LevelDebug
	switch level {
	case kgo.LogLevelError:
		severity = slog.LevelError
	case kgo.LogLevelWarn:
		severity = slog.LevelWarn
	}
	l.logger.Log(context.Background(), severity, "kafka client", append([]any{"event", event}, keyvals...)...)
}
