package txmsg

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// wireTrace is how a span travels in a message's headers, whatever propagator the program uses elsewhere: W3C trace context.
var wireTrace propagation.TraceContext

const traceParent = "traceparent"

// InjectTrace writes the span of ctx into m's headers, as traceparent and tracestate, unless the caller has set a
// traceparent. Publish does so by itself; it is for code that writes messages in another way.
func InjectTrace(ctx context.Context, m *Message) {
	if _, own := m.Headers[traceParent]; own {
		return
	}
	carrier := propagation.MapCarrier{}
	wireTrace.Inject(ctx, carrier)
	for name, value := range carrier {
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[name] = value
	}
}

// ExtractTrace returns ctx with the span that the headers of m carry as its remote parent; ctx itself if they carry none.
func ExtractTrace(ctx context.Context, m Message) context.Context {
	if len(m.Headers) == 0 {
		return ctx // most messages, where nobody traces
	}
	return wireTrace.Extract(ctx, propagation.MapCarrier(m.Headers))
}
