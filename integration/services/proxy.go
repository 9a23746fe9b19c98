package services

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands between clients and a server, and harms the connections as told. It starts out as if it were not there.
// Methods fail the test when they cannot do what they say, so they are called from the test's goroutine, one at a time.
type Proxy struct {
	t        testing.TB
	listen   string
	upstream string
	link     *toxiproxy.Proxy
	delayed  bool
}

// NewProxy puts a proxy before the server at address, host:port or a URL with it. It ends with t.
//
// A server that tells its clients where to connect (Kafka, RocketMQ's name server) leads them past this proxy: see
// StartKafkaProxied and StartRocketMQProxied.
func NewProxy(t testing.TB, address string) *Proxy {
	t.Helper()
	if _, rest, isURL := strings.Cut(address, "://"); isURL {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatalf("proxy for %s: %v", rest, err)
		}
		address = parsed.Host
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return newProxy(t, join(loopback, ports[0]), address)
}

func newProxy(t testing.TB, listen, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, listen: listen, upstream: upstream}
	p.open()
	t.Cleanup(func() { p.link.Stop() })
	return p
}

// open begins afresh: faults are never taken out of live connections, which could not go on after them.
func (p *Proxy) open() {
	p.t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p.link, p.delayed = toxiproxy.NewProxy(server, p.listen, p.listen, p.upstream), false
	if err := p.link.Start(); err != nil {
		p.t.Fatalf("proxy at %s: %v", p.listen, err)
	}
}

// Addr is the host:port that clients use in place of the server's.
func (p *Proxy) Addr() string { return p.listen }

// Replace returns address, a DSN, URL or host:port of the server, with the proxy's in place of the server's.
func (p *Proxy) Replace(address string) string {
	return strings.Replace(address, p.upstream, p.listen, 1)
}

// Cut breaks all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.link.Stop()
}

// SwallowReplies lets requests through to the server and drops what it answers, on open connections and on new ones. The
// server has done what it was asked, and the client cannot know.
func (p *Proxy) SwallowReplies() {
	p.t.Helper()
	p.add(`{"name":"swallow","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// Delay holds every reply back for d, on open connections and on new ones. Zero ends the delay.
func (p *Proxy) Delay(d time.Duration) {
	p.t.Helper()
	attributes := fmt.Sprintf(`{"latency":%d}`, d.Milliseconds())
	if !p.delayed {
		p.add(`{"name":"delay","type":"latency","stream":"downstream","attributes":` + attributes + `}`)
		p.delayed = true
		return
	}
	if _, err := p.link.Toxics.UpdateToxicJson("delay", strings.NewReader(`{"attributes":`+attributes+`,"toxicity":1}`)); err != nil {
		p.t.Fatalf("proxy at %s: %v", p.listen, err)
	}
}

// Restore ends every fault. Open connections are broken, since some may have lost bytes; new ones are sound.
func (p *Proxy) Restore() {
	p.t.Helper()
	p.link.Stop()
	p.open()
}

func (p *Proxy) add(toxic string) {
	p.t.Helper()
	if _, err := p.link.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Fatalf("proxy at %s: %v", p.listen, err)
	}
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
