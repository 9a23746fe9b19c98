package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var takeOver sync.Once

// takeOverProcess makes the library log into logger and report panics of its goroutines there. Both are one for the
// whole process, and the library reads them without a lock, so they are set once, before its first client is made.
func takeOverProcess(logger *slog.Logger) {
	takeOver.Do(func() {
		rlog.SetLogger(libraryLogger{logger})
		if primitive.DefaultPanicHandler == nil {
			primitive.DefaultPanicHandler = func(p any) {
				logger.Error("rocketmq client panicked", "error", fmt.Sprint(p))
			}
		}
	})
}

// libraryLogger writes what the library says into slog, with the fields that cannot hold a message's body.
type libraryLogger struct{ logger *slog.Logger }

var _ rlog.Logger = libraryLogger{}

// loggedFields are the library's fields that are passed on. Others hold whole messages or requests.
var loggedFields = map[string]bool{
	rlog.LogKeyProducerGroup: true, rlog.LogKeyConsumerGroup: true, rlog.LogKeyTopic: true, rlog.LogKeyUnderlayError: true,
	rlog.LogKeyBroker: true, rlog.LogKeyMessageId: true, rlog.LogKeyQueueId: true, rlog.LogKeyQueueOffset: true,
	rlog.LogKeyStack: true, "brokerName": true, "brokerId": true, "brokerAddr": true, "brokerID": true, "clientID": true,
	"clientId": true, "responseCode": true, "remark": true, "remoteAddr": true, "localAddr": true, "err": true,
}

// expected are lines that the library writes for what is nothing out of the ordinary here.
var expected = map[string]bool{
	"executeLocalTransaction but state unexpected": true, // every rollback
	"topic route info is nil or empty":             true, // reported by our own error
	"query topic route from server error":          true,
	"queryTopicRouteInfoFromServer return nil":     true,
}

func (l libraryLogger) Debug(msg string, fields map[string]any) { l.log(slog.LevelDebug, msg, fields) }

func (l libraryLogger) Info(msg string, fields map[string]any) { l.log(slog.LevelDebug, msg, fields) }

func (l libraryLogger) Warning(msg string, fields map[string]any) { l.log(slog.LevelInfo, msg, fields) }

func (l libraryLogger) Error(msg string, fields map[string]any) { l.log(slog.LevelWarn, msg, fields) }

// Fatal does not end the process: that is not a library's to decide.
func (l libraryLogger) Fatal(msg string, fields map[string]any) { l.log(slog.LevelError, msg, fields) }

// Level does nothing: the handler of the slog.Logger decides.
func (libraryLogger) Level(string) {}

// OutputPath does nothing, for the same reason.
func (libraryLogger) OutputPath(string) error { return nil }

func (l libraryLogger) log(level slog.Level, msg string, fields map[string]any) {
	if expected[msg] {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if msg == "" || !l.logger.Enabled(ctx, level) {
		return
	}
	attrs := []any{"event", msg}
	for name, value := range fields {
		if loggedFields[name] {
			attrs = append(attrs, name, fmt.Sprint(value))
		}
	}
	l.logger.Log(ctx, level, "rocketmq client", attrs...)
}
