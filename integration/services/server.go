package services

import (
	"context"
	"testing"
	"time"
)

// faultTimeout bounds what is done to a Server; the slowest is an orderly stop and a start with recovery.
const faultTimeout = 2 * time.Minute

// Server is a server that belongs to one test, to be harmed as the test likes. It keeps its address and its data until the
// test ends. Methods fail the test when they cannot do what they say, so they are called from the test's goroutine,
// one at a time.
type Server struct {
	t        testing.TB
	instance instance
}

// start starts an instance that ends with t.
func (s *service) start(t testing.TB, p place) *Server {
	t.Helper()
	skipShort(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	running, err := s.launch(ctx, p)
	if err != nil {
		s.miss(t, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
		defer cancel()
		if err := running.remove(ctx); err != nil {
			t.Errorf("remove %s: %v", s.name, err)
		}
	})
	return &Server{t: t, instance: running}
}

// startProxied starts an instance whose clients' port is a proxy's. Server and proxy listen at the same port of two loopback
// addresses, because a server tells clients the port it listens at.
func (s *service) startProxied(t testing.TB, p place) (*Server, *Proxy) {
	t.Helper()
	ports, err := freePorts(s.ports)
	if err != nil {
		t.Fatal(err)
	}
	p.bind, p.host, p.ports = "127.0.0.2", loopback, ports
	proxy := newProxy(t, join(p.host, p.port()), join(p.bind, p.port()))
	return s.start(t, p), proxy
}

// Address is what clients connect to, in the form of the function that returns a shared server of the kind. It stays the
// same for the life of the Server.
func (s *Server) Address() string { return s.instance.address() }

// Stop asks the server to end in order, as at a planned restart, and returns when it has.
func (s *Server) Stop() {
	s.t.Helper()
	s.must("stop", s.instance.stop)
}

// Kill ends the server at once, without a chance to write or to say anything, and returns when it is gone. What it
// had handed to the operating system survives.
func (s *Server) Kill() {
	s.t.Helper()
	s.must("kill", s.instance.kill)
}

// Pause freezes the server: connections stay open, new ones are taken by the system, nothing is answered.
func (s *Server) Pause() {
	s.t.Helper()
	s.must("pause", s.instance.pause)
}

// Resume ends a Pause. The server goes on where it was, with all that arrived meanwhile.
func (s *Server) Resume() {
	s.t.Helper()
	s.must("resume", s.instance.resume)
}

// Restart starts the server again on its data, stopped in order first if it runs, and returns when it serves.
func (s *Server) Restart() {
	s.t.Helper()
	s.must("stop", s.instance.stop)
	s.must("start", s.instance.start)
}

func (s *Server) must(act string, do func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		s.t.Fatalf("%s: %v", act, err)
	}
}
