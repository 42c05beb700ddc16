package bootstrap

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/test/servers"
)

const ownCluster = "c.example.com"

func callIssuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: noon, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

func callAuthority(t *testing.T) *pki.Keyset {
	t.Helper()
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, callIssuer())
	if err != nil {
		t.Fatal(err)
	}
	return all[pki.KubernetesCA]
}

// calls is a cluster on this host: the machine N has the address 127.0.0.N.
type calls struct {
	*testing.T
	ca       *pki.Keyset
	machines map[string]Called
	verifier *Callback
}

func newCalls(t *testing.T) *calls {
	t.Helper()
	c := &calls{T: t, ca: callAuthority(t), machines: map[string]Called{}}
	for _, n := range []string{"2", "3"} {
		c.machines[n] = Called{NodeName: "node-" + n, InstanceGroup: "nodes", Cluster: ownCluster, IsRunning: true, Addresses: []string{"127.0.0." + n}, Names: []string{"192.0.2." + n}}
	}
	c.verifier = &Callback{Scheme: "x-test-id", Cluster: ownCluster, PerSecond: 1000, AtOnce: 10000, Now: noon, Port: servers.FreePorts(t, 1)[0],
		Certificate: func() (*tls.Certificate, error) {
			own, err := CallerCertificate(ownCluster, c.ca, callIssuer())
			return &own, err
		},
		Find: func(_ context.Context, id string) (Called, error) {
			m, ok := c.machines[id]
			if !ok {
				return m, fault.New(fault.Gone, "no server %s", id)
			}
			return m, nil
		}}
	return c
}

// listener returns the listener of a machine.
func (c *calls) listener(machine string) *Listener {
	return &Listener{Cluster: ownCluster, Authorities: c.ca.Bundle(), Now: noon, Rand: rand.Reader, Address: net.JoinHostPort("127.0.0."+machine, strconv.Itoa(c.verifier.Port))}
}

// ask makes a machine listen until the test ends, and returns the body of its request.
func (c *calls) ask(machine string) Request {
	c.Helper()
	challenge, stop, err := c.listener(machine).open(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(stop)
	return Request{APIVersion: APIVersion, IncludeNodeConfig: true, Challenge: challenge}
}

func (c *calls) verify(ctx context.Context, id string, r Request) (Identity, error) {
	c.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		c.Fatal(err)
	}
	return c.verifier.Verify(ctx, Proof{Token: "x-test-id " + id, Body: body, Sender: netip.MustParsePrefix("127.0.0.9/32")})
}

// refused checks that a claim is refused, for a reason that may be shown to the sender.
func (c *calls) refused(what, id string, r Request, says string) {
	c.Helper()
	if got, err := c.verify(c.Context(), id, r); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), says) || got.NodeName != "" {
		c.Errorf("%s: got %+v, %v, want a refusal with %q", what, got, err, says)
	}
}

// unverified checks that a claim cannot be verified, but is not refused either.
func (c *calls) unverified(what, id string, r Request, says string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	if got, err := c.verify(ctx, id, r); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), says) || got.NodeName != "" {
		c.Errorf("%s: got %+v, %v, want an error with %q", what, got, err, says)
	}
}

func TestAMachineIsCalledBackBeforeItIsBelieved(t *testing.T) {
	c := newCalls(t)
	var seen []string
	machine, _ := client(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		id, err := c.verifier.Verify(r.Context(), Proof{Token: r.Header.Get("Authorization"), Body: body, Sender: netip.MustParsePrefix("198.51.100.7/32")})
		if err != nil {
			t.Error(err)
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		seen = append(seen, fmt.Sprint(id))
		_, _ = io.WriteString(w, `{"nodeConfig":{"nodeupConfig":"CAs: {}"}}`)
	})
	machine.Prover, machine.Listener = Claim{Scheme: "x-test-id", ID: func(context.Context) (string, error) { return "2", nil }}, c.listener("2")
	for range 2 { // each request has its own challenge
		if _, err := machine.NodeConfig(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const want = "{node-2 nodes [127.0.0.2 192.0.2.2]}"
	if !slices.Equal(seen, []string{want, want}) {
		t.Errorf("it is %v", seen)
	}
	if conn, err := net.Dial("tcp", machine.Listener.Address); err == nil {
		_ = conn.Close()
		t.Error("the machine still listens after its request")
	}
	machine.Prover = Claim{Scheme: "x-test-id", ID: func(context.Context) (string, error) { return "", errors.New("no metadata service") }}
	if _, err := machine.NodeConfig(t.Context()); err == nil || !strings.Contains(err.Error(), "identify this machine: no metadata service") {
		t.Errorf("a machine that does not know its ID: %v", err)
	}
}

func TestAMachineThatTheSenderIsNotIsNotBelieved(t *testing.T) {
	c := newCalls(t)
	honest := c.ask("3")
	own := honest
	c.unverified("a machine that does not listen", "2", own, "connection refused")
	victim := c.ask("2")
	c.refused("a machine with another certificate", "2", own, "x509: ")
	other := *victim.Challenge
	other.CA = own.Challenge.CA
	c.refused("a machine with another certificate, but the right secret", "2", Request{APIVersion: APIVersion, Challenge: &other}, "x509: ")
	forged := *own.Challenge
	forged.CA = victim.Challenge.CA
	own.Challenge = &forged
	c.refused("a machine that does not know the challenge", "2", own, "did not send this request")
	forged.ChallengeID = victim.Challenge.ChallengeID
	c.refused("a machine with another secret", "2", own, "does not know the secret")
	if _, err := c.verify(t.Context(), "3", honest); err != nil {
		t.Errorf("after all that, an honest machine: %v", err)
	}
}

func TestOnlyRunningMachinesOfTheClusterAreCalled(t *testing.T) {
	c := newCalls(t)
	r := c.ask("2")
	for what, x := range map[string]struct {
		change func(*Called)
		says   string
	}{
		"another cluster's":         {func(m *Called) { m.Cluster = "x." + ownCluster }, "does not belong to the cluster"},
		"no cluster's":              {func(m *Called) { m.Cluster = "" }, "does not belong to the cluster"},
		"one that is stopped":       {func(m *Called) { m.IsRunning = false }, "is not running"},
		"one of no group":           {func(m *Called) { m.InstanceGroup = "" }, "belongs to no instance group"},
		"one without a node's name": {func(m *Called) { m.NodeName = "" }, "belongs to no instance group"},
	} {
		m := c.machines["2"]
		x.change(&m)
		c.machines["9"] = m
		c.refused(what, "9", r, x.says)
	}
	c.machines["9"] = Called{NodeName: "n", InstanceGroup: "nodes", Cluster: ownCluster, IsRunning: true}
	c.unverified("one without an address", "9", r, "has no address")
	c.refused("one that does not exist", "7", r, "no machine 7 is known")
	find := c.verifier.Find
	c.verifier.Find = func(context.Context, string) (Called, error) {
		return Called{}, fault.New(fault.Denied, "the platform's token is wrong")
	}
	c.unverified("one that cannot be looked up", "2", r, "the platform's token is wrong")
	c.verifier.Find = find
	if _, err := c.verify(t.Context(), "2", r); err != nil {
		t.Errorf("its challenge was used up: %v", err)
	}
}

func TestAChallengeIsUsedOnce(t *testing.T) {
	c := newCalls(t)
	r := c.ask("2")
	if _, err := c.verify(t.Context(), "2", r); err != nil {
		t.Fatal(err)
	}
	c.refused("a challenge that the machine has answered", "2", r, "did not send this request")

	// A machine that would answer again is not believed again.
	challenge, err := newChallenge(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own, err := callCertificate(callIssuer(), func(i pki.Issuer) (pki.Pair, error) {
		return i.SelfSigned(pki.Request{Usage: pki.Server, CommonName: "x", Names: []string{calledName(ownCluster)}})
	})
	if err != nil {
		t.Fatal(err)
	}
	challenge.CA = pki.EncodeCertificate(own.Leaf)
	l, err := tls.Listen("tcp", net.JoinHostPort("127.0.0.3", strconv.Itoa(c.verifier.Port)), &tls.Config{Certificates: []tls.Certificate{own}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only read from
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			question := make([]byte, 2*callField)
			if _, err := io.ReadFull(conn, question); err == nil {
				_, _ = conn.Write(callAnswer(challenge.ChallengeSecret, question[callField:]))
			}
			_ = conn.Close()
		}
	}()
	r = Request{APIVersion: APIVersion, Challenge: challenge}
	if _, err := c.verify(t.Context(), "3", r); err != nil {
		t.Fatal(err)
	}
	c.refused("a machine that answers twice", "3", r, "already used")
}

// TestAMachineAnswersOnlyItsController calls a machine with certificates that kops-controller does not
// have.
func TestAMachineAnswersOnlyItsController(t *testing.T) {
	c := newCalls(t)
	r := c.ask("2")
	certificate := c.verifier.Certificate
	for what, issue := range map[string]func(pki.Issuer) (pki.Pair, error){
		"of another authority": func(i pki.Issuer) (pki.Pair, error) {
			return i.Issue(pki.Request{Usage: pki.Client, CommonName: callerName(ownCluster)}, callAuthority(t))
		},
		"of a kubelet": func(i pki.Issuer) (pki.Pair, error) {
			return i.Issue(pki.Request{Usage: pki.Client, CommonName: "system:node:x", Organization: []string{"system:nodes"}}, c.ca)
		},
		"of another cluster's controller": func(i pki.Issuer) (pki.Pair, error) {
			return i.Issue(pki.Request{Usage: pki.Client, CommonName: callerName("x." + ownCluster)}, c.ca)
		},
		"for servers": func(i pki.Issuer) (pki.Pair, error) {
			return i.Issue(pki.Request{Usage: pki.Server, CommonName: callerName(ownCluster)}, c.ca)
		},
	} {
		c.verifier.Certificate = func() (*tls.Certificate, error) {
			own, err := callCertificate(callIssuer(), issue)
			return &own, err
		}
		c.unverified("a certificate "+what, "2", r, "tls: ")
	}
	c.verifier.Certificate = func() (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	c.unverified("without a certificate", "2", r, "tls: ")
	c.verifier.Certificate = func() (*tls.Certificate, error) { return nil, errors.New("no authority") }
	if _, err := c.verify(t.Context(), "2", r); err == nil || fault.Is(err, fault.Denied) {
		t.Errorf("without an authority: %v", err)
	}
	c.verifier.Certificate = certificate
	if _, err := c.verify(t.Context(), "2", r); err != nil {
		t.Errorf("afterwards it does not answer kops-controller: %v", err)
	}
}

func TestASlowMachineIsNotWaitedForLong(t *testing.T) {
	c := newCalls(t)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(c.verifier.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it accepts nothing
	c.unverified("a machine that does not answer", "2", c.ask("3"), "deadline exceeded")
}

// TestIdleCallersDoNotKeepTheControllerOut also checks that a listener ends with calls open.
func TestIdleCallersDoNotKeepTheControllerOut(t *testing.T) {
	c := newCalls(t)
	l := c.listener("2")
	challenge, stop, err := l.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxCalls {
		conn, err := net.Dial("tcp", l.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // it is idle
	}
	if _, err := c.verify(t.Context(), "2", Request{APIVersion: APIVersion, Challenge: challenge}); err != nil {
		t.Error(err)
	}
	stop()
	if _, stop, err = l.open(t.Context()); err != nil {
		t.Fatalf("its port is not free: %v", err)
	}
	stop()
}

func TestTheClockOfAMachineMayBeWrong(t *testing.T) {
	c := newCalls(t)
	l := c.listener("2")
	for off, good := range map[time.Duration]bool{-24 * time.Hour: true, 59 * time.Minute: true, 7 * 24 * time.Hour: false} {
		l.Now = func() time.Time { return noon().Add(off) }
		challenge, stop, err := l.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.verify(t.Context(), "2", Request{APIVersion: APIVersion, Challenge: challenge})
		if (err == nil) != good || fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", off, err)
		}
		stop()
	}
}

func TestClaimsThatCannotBeReadAreRefused(t *testing.T) {
	c := newCalls(t)
	good := c.ask("2")
	with := func(change func(*Challenge)) Request {
		r, challenge := good, *good.Challenge
		change(&challenge)
		r.Challenge = &challenge
		return r
	}
	for what, r := range map[string]Request{
		"no challenge":    {APIVersion: APIVersion},
		"another version": {APIVersion: "v2", Challenge: good.Challenge},
		"a short ID":      with(func(c *Challenge) { c.ChallengeID = "1" }),
		"a short secret":  with(func(c *Challenge) { c.ChallengeSecret = []byte("1") }),
		"no secret":       with(func(c *Challenge) { c.ChallengeSecret = nil }),
		"no certificate":  with(func(c *Challenge) { c.CA = nil }),
		"a huge one":      with(func(c *Challenge) { c.CA = append(bytes.Repeat([]byte("\n"), maxCA), c.CA...) }),
		"not a certificate": with(func(c *Challenge) {
			c.CA = []byte("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n")
		}),
	} {
		c.refused(what, "2", r, "the identity is not proven")
	}
	for _, token := range []string{"", "x-test-id", "x-other-id 2", "x-test-id ../2", "x-test-id 2/3", "x-test-id 2 3", "x-test-id -2", "x-test-id " + strings.Repeat("2", 200)} {
		if _, err := c.verifier.Verify(t.Context(), Proof{Token: token}); !fault.Is(err, fault.Denied) {
			t.Errorf("%q: %v", token, err)
		}
	}
	c.verifier.PerSecond, c.verifier.AtOnce = 0.001, 4
	for n := range 3 {
		if _, err := c.verify(t.Context(), "7", good); errors.Is(err, ErrBusy) != (n == 2) {
			t.Errorf("the %dth question about unknown machines: %v", n+1, err)
		}
	}
}
