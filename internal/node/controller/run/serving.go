package run

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// serving returns a TLS configuration with the certificate in files, read for each connection:
// nodeup reissues it, and this process may run for longer than it is valid. A client may send
// a certificate of its own, which is checked with the request.
func serving(cert, key string) (*tls.Config, error) {
	p := &keyPair{cert: cert, key: key}
	if _, err := p.current(nil); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: p.current, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}, nil
}

// keyPair is a certificate and its key in files, which are read again when they change.
type keyPair struct {
	cert, key string

	mu          sync.Mutex
	loadedState state
	read        *tls.Certificate
}

// state is used to detect that files have changed.
type state struct {
	certTime, keyTime time.Time
	certSize, keySize int64
}

// current returns the pair in the files. While these cannot be read or do not match, as
// when one is written before the other, it returns the previous pair.
func (p *keyPair) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, err := p.state()
	if err == nil && p.read != nil && now == p.loadedState {
		return p.read, nil
	}
	var c tls.Certificate
	if err == nil {
		c, err = tls.LoadX509KeyPair(p.cert, p.key)
	}
	switch {
	case err == nil:
		p.read, p.loadedState = &c, now
	case p.read == nil:
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	return p.read, nil
}

func (p *keyPair) state() (state, error) {
	c, err := os.Stat(p.cert)
	if err != nil {
		return state{}, err
	}
	k, err := os.Stat(p.key)
	if err != nil {
		return state{}, err
	}
	return state{c.ModTime(), k.ModTime(), c.Size(), k.Size()}, nil
}
