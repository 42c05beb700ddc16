package bootstrap

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
)

// maxCalls is how many calls are answered at a time; one is kops-controller's. One more ends the oldest:
// callers that only wait cannot keep kops-controller out, which proves who it is within milliseconds.
const maxCalls = 16

// Listener lets kops-controller call this machine back while it processes a request.
type Listener struct {
	Cluster string
	// Authorities is the PEM bundle of the authorities that may sign kops-controller's certificate.
	Authorities string
	Now         func() time.Time
	Rand        io.Reader
	// Address is host:port; empty: ports.Callback of every address.
	Address string
}

// open listens for the calls that the challenge of one request causes, until stop is called.
func (l Listener) open(ctx context.Context) (c *Challenge, stop func(), err error) {
	if c, err = newChallenge(l.Rand); err != nil {
		return nil, nil, err
	}
	own, err := callCertificate(pki.Issuer{Rand: l.Rand, Now: l.Now}, func(i pki.Issuer) (pki.Pair, error) {
		return i.SelfSigned(pki.Request{Usage: pki.Server, CommonName: calledName(l.Cluster), Names: []string{calledName(l.Cluster)}, Validity: callValidity})
	})
	if err != nil {
		return nil, nil, err
	}
	c.CA = pki.EncodeCertificate(own.Leaf)
	callers := x509.NewCertPool()
	if !callers.AppendCertsFromPEM([]byte(l.Authorities)) {
		return nil, nil, errors.New("the bundle of kops-controller's authorities contains no certificate")
	}
	a := &answering{challenge: *c, config: &tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers, Time: l.Now, MinVersion: tls.VersionTLS13,
		VerifyConnection: func(s tls.ConnectionState) error {
			if got := s.PeerCertificates[0].Subject.CommonName; got != callerName(l.Cluster) {
				return fmt.Errorf("the caller is %q, not %q", got, callerName(l.Cluster))
			}
			return nil
		}}}
	address := l.Address
	if address == "" {
		address = ":" + strconv.Itoa(ports.Callback)
	}
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
		return nil, nil, err
	}
	a.running.Go(a.accept)
	return c, a.stop, nil
}

// answering answers the calls about one challenge.
type answering struct {
	challenge Challenge
	config    *tls.Config
	listener  net.Listener
	running   sync.WaitGroup

	mu         sync.Mutex
	calls      []net.Conn // the oldest first
	isAnswered bool       // the challenge is answered once
	isStopped  bool
}

// accept answers calls, maxCalls at a time, until the listener is closed.
func (a *answering) accept() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return
		}
		if !a.begin(conn) {
			return
		}
		a.running.Go(func() {
			_ = a.answer(conn) // the caller reports what is wrong
			a.mu.Lock()
			a.calls = slices.DeleteFunc(a.calls, func(c net.Conn) bool { return c == conn })
			a.mu.Unlock()
		})
	}
}

// begin records a call, and reports whether calls are still answered.
func (a *answering) begin(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isStopped {
		_ = conn.Close() // nothing was sent
		return false
	}
	if len(a.calls) == maxCalls {
		_ = a.calls[0].Close() // nothing more is sent
		a.calls = a.calls[1:]
	}
	a.calls = append(a.calls, conn)
	return true
}

// answer answers one call, and closes its connection.
func (a *answering) answer(raw net.Conn) error {
	conn := tls.Server(raw, a.config)
	defer conn.Close() //nolint:errcheck // what matters was written
	if err := raw.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	question := make([]byte, 2*callField)
	if _, err := io.ReadFull(conn, question); err != nil {
		return err
	}
	a.mu.Lock()
	isOurs := string(question[:callField]) == a.challenge.ChallengeID && !a.isAnswered
	a.isAnswered = a.isAnswered || isOurs
	a.mu.Unlock()
	if !isOurs {
		return errors.New("the call is about another challenge")
	}
	_, err := conn.Write(callAnswer(a.challenge.ChallengeSecret, question[callField:]))
	return err
}

// stop closes the listener and its connections, and waits for their goroutines.
func (a *answering) stop() {
	_ = a.listener.Close() // it is only read from
	a.mu.Lock()
	a.isStopped = true
	for _, conn := range a.calls {
		_ = conn.Close() // the request has its response, so the call has ended
	}
	a.mu.Unlock()
	a.running.Wait()
}
