package bootstrap

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// machineMap holds machines by node name.
type machineMap map[string]Machine

func (k machineMap) Machine(_ context.Context, node string) (Machine, error) {
	if m, ok := k[node]; ok {
		return m, nil
	}
	return Machine{}, fault.New(fault.Gone, "no machine %s", node)
}

func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

// machine returns a machine and its prover, whose clock is off by skew.
func machine(t *testing.T, node string, skew time.Duration) (Machine, MachineKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := EncodePublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return Machine{Node: node, InstanceGroup: "nodes", PublicKey: public, Names: []string{"10.0.0.7", node}},
		MachineKey{Node: node, Key: key, Now: func() time.Time { return noon().Add(skew) }, Rand: rand.Reader}
}

func prove(t *testing.T, p Prover, body string) string {
	t.Helper()
	token, err := p.Prove(t.Context(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAMachineProvesWhoItIs(t *testing.T) {
	m, prover := machine(t, "node-1", 0)
	v := NewMachineKeyVerifier(machineMap{m.Node: m}, noon)
	for range 2 { // the same request again has another proof
		id, err := v.Verify(t.Context(), Proof{Token: prove(t, prover, "body"), Body: []byte("body")})
		if err != nil || id.NodeName != "node-1" || id.InstanceGroup != "nodes" || len(id.Names) != 2 {
			t.Fatalf("got %+v, %v", id, err)
		}
	}
}

func TestClocksMayDifferByFiveMinutes(t *testing.T) {
	for skew, good := range map[time.Duration]bool{
		ClockSkew: true, -ClockSkew: true, ClockSkew + time.Second: false, -ClockSkew - time.Second: false, 2 * time.Hour: false,
	} {
		m, prover := machine(t, "node-1", skew)
		_, err := NewMachineKeyVerifier(machineMap{m.Node: m}, noon).Verify(t.Context(), Proof{Token: prove(t, prover, "x"), Body: []byte("x")})
		if (err == nil) != good {
			t.Errorf("skew %s: %v", skew, err)
		}
		if !good && (!fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "clock")) {
			t.Errorf("skew %s: the refusal does not name the clock: %v", skew, err)
		}
	}
}

func TestWrongProofsAreRefused(t *testing.T) {
	m, prover := machine(t, "node-1", 0)
	other, impostor := machine(t, "node-2", 0)
	impostor.Node = "node-1" // signs with the key of node-2
	outsider := impostor
	outsider.Node = "node-3"
	climber := prover
	climber.Node = "../node-1"
	edit := func(change func(*machineClaim)) string {
		token, claim, err := parseMachineToken(prove(t, prover, "body"))
		if err != nil {
			t.Fatal(err)
		}
		change(&claim)
		token.Data, _ = json.Marshal(claim)
		text, _ := json.Marshal(token)
		return SchemeMachineKey + base64.StdEncoding.EncodeToString(text)
	}
	keyless := prover
	keyless.Node = "control-plane-1"
	v := NewMachineKeyVerifier(machineMap{m.Node: m, other.Node: other, keyless.Node: {Node: keyless.Node}}, noon)
	for name, tt := range map[string]struct{ token, body, says string }{
		"another machine's name":  {prove(t, impostor, "body"), "body", "not made by the key of the machine node-1"},
		"a machine without a key": {prove(t, keyless, "body"), "body", "no key of the machine control-plane-1"},
		"an unknown machine":      {prove(t, outsider, "body"), "body", "no machine node-3 is known"},
		"a name that is a path":   {prove(t, climber, "body"), "body", "not a node name"},
		"another body":            {prove(t, prover, "body"), "changed", "for another request"},
		"a changed claim":         {edit(func(c *machineClaim) { c.Timestamp++ }), "body", "not made by the key"},
		"another name in a claim": {edit(func(c *machineClaim) { c.Instance = "node-2" }), "body", "not made by the key of the machine node-2"},
		"no token":                {"", "body", "not of type"},
		"another kind of token":   {"x-aws-sts e30=", "body", "not of type"},
		"no base64":               {SchemeMachineKey + "%%", "body", "cannot decode the token"},
		"no JSON":                 {SchemeMachineKey + "aGVsbG8=", "body", "cannot decode the token"},
		"an empty object":         {SchemeMachineKey + "e30=", "body", "cannot decode the token"},
	} {
		_, err := v.Verify(t.Context(), Proof{Token: tt.token, Body: []byte(tt.body)})
		if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want a refusal with %q", name, err, tt.says)
		}
	}
}

func TestAudienceOfAnotherServiceIsRefused(t *testing.T) {
	m, _ := machine(t, "node-1", 0)
	v := NewMachineKeyVerifier(machineMap{m.Node: m}, noon)
	err := v.checkClaim(machineClaim{Audience: "elsewhere", Timestamp: noon().Unix()}, nil)
	if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("got %v", err)
	}
}

func TestAProofIsValidOnce(t *testing.T) {
	m, prover := machine(t, "node-1", 0)
	now := noon()
	v := NewMachineKeyVerifier(machineMap{m.Node: m}, func() time.Time { return now })
	p := Proof{Token: prove(t, prover, "body"), Body: []byte("body")}
	if _, err := v.Verify(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{0, time.Second, ClockSkew} {
		now = noon().Add(later)
		if _, err := v.Verify(t.Context(), p); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "already used") {
			t.Errorf("after %s: got %v", later, err)
		}
	}
	now = noon().Add(ClockSkew + time.Second)
	if _, err := v.Verify(t.Context(), p); !fault.Is(err, fault.Denied) {
		t.Errorf("a forgotten proof is accepted: %v", err)
	}
	if v.proofs.IsFirst([32]byte{1}, now.Add(ClockSkew), now); len(v.proofs.until) != 1 {
		t.Errorf("%d proofs are remembered; the old one should be gone", len(v.proofs.until))
	}
}

// brokenMachines is a store that cannot be read.
type brokenMachines struct{}

func (brokenMachines) Machine(context.Context, string) (Machine, error) {
	return Machine{}, errors.New("no route to the store")
}

func TestAnUnreadableStoreIsNotADenial(t *testing.T) {
	_, prover := machine(t, "node-1", 0)
	_, err := NewMachineKeyVerifier(brokenMachines{}, noon).Verify(t.Context(), Proof{Token: prove(t, prover, "x"), Body: []byte("x")})
	if err == nil || fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("x-pki-tpm e30=")
	f.Add("x-pki-tpm " + base64.StdEncoding.EncodeToString([]byte(`{"data":"e30=","signature":""}`)))
	v := NewMachineKeyVerifier(machineMap{}, noon)
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(t.Context(), Proof{Token: token}); !fault.Is(err, fault.Denied) {
			t.Errorf("%q: %v", token, err)
		}
	})
}
