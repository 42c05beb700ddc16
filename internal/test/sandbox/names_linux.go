package sandbox

import (
	"net"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// ResolveAll makes every name resolve to this host.
func ResolveAll(t testing.TB) {
	t.Helper()
	writeEtc(t, map[string]string{"hosts": "127.0.0.1 localhost\n", "resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "hosts: files dns\n"})
	c, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		question := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(question)
			if err != nil {
				return // it is closed
			}
			if answer, err := answerHere(question[:n]); err == nil {
				_, _ = c.WriteTo(answer, from) // the client asks again
			}
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		serving.Wait()
	})
}

// answerHere answers a DNS message: every name has the IPv4 address of this host, and no other record.
func answerHere(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
				Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}})
		}
	}
	return m.Pack()
}
