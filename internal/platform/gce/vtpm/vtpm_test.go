package vtpm_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/gce/vtpm/softtpm"
	"kops.local/kops/internal/platform/gce/vtpm/vtpmtest"
)

const body = `{"apiVersion":"bootstrap.kops.k8s.io/v1alpha1","includeNodeConfig":true}`

func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

// project is the verifier's source for one instance; failed and failedMIG are the errors of
// lookups.
type project struct {
	vtpm.Instance
	member             string
	failed, failedMIG  error
	asked, askedMember int
}

// instances implements vtpm.Instances for a project.
type instances struct{ *project }

func (i instances) Instance(_ context.Context, zone, name string) (vtpm.Instance, error) {
	i.asked++
	if zone != "us-test1-a" || name != "nodes-x1y2" {
		return vtpm.Instance{}, fault.New(fault.Gone, "no such instance")
	}
	return i.project.Instance, i.failed
}

func (i instances) Member(context.Context, vtpm.Instance) (string, error) {
	i.askedMember++
	return i.member, i.failedMIG
}

// machine returns the prover of an instance of the cluster, with a software TPM below root.
func machine(root string) *vtpm.Prover {
	return &vtpm.Prover{Now: noon, Open: func() (transport.TPMCloser, error) { return vtpm.Open(root) }, Machine: func(context.Context) (gcerest.Machine, error) {
		return gcerest.Machine{Project: "testproject", Zone: "us-test1-a", Name: "nodes-x1y2"}, nil
	}}
}

func prove(t *testing.T, p *vtpm.Prover, body string) string {
	t.Helper()
	token, err := p.Prove(t.Context(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func verifier(key string) (*vtpm.Verifier, *project) {
	p := &project{Instance: vtpm.Instance{Running: true, Cluster: "minimal.example.com", Group: "nodes", Names: []string{"10.0.16.3"}, Key: key}, member: "nodes"}
	return &vtpm.Verifier{Project: "testproject", Region: "us-test1", Cluster: "minimal.example.com", Instances: instances{p}, Now: noon}, p
}

func TestAMachineProvesWhoItIsByItsTPM(t *testing.T) {
	root, key := vtpmtest.Start(t)
	v, _ := verifier(key)
	token := prove(t, machine(root), body)
	got, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte(body)})
	if err != nil || got.NodeName != "nodes-x1y2" || got.InstanceGroup != "nodes" || !slices.Equal(got.Names, []string{"10.0.16.3"}) {
		t.Errorf("it is %+v, %v", got, err)
	}
	if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte(body)}); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "already used") {
		t.Errorf("a second time: %v", err)
	}
	other := strings.ReplaceAll(body, "true", "false")
	if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: prove(t, machine(root), other), Body: []byte(other)}); err != nil {
		t.Errorf("another request of the same second: %v", err)
	}
}

// Tokens have the format that kOps' nodeup writes and its kops-controller reads.
func TestATokenHasTheFormOfKOps(t *testing.T) {
	root, _ := vtpmtest.Start(t)
	encoded, ok := strings.CutPrefix(prove(t, machine(root), body), "x-gce-tpm ")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		t.Fatalf("the token is %s: %v", encoded, err)
	}
	var token map[string][]byte
	if err := json.Unmarshal(raw, &token); err != nil || len(token) != 2 || len(token["signature"]) != 256 {
		t.Errorf("it holds %s: %v", raw, err)
	}
	hash := sha256.Sum256([]byte(body))
	want := `{"gcpProjectID":"testproject","zone":"us-test1-a","instance":"nodes-x1y2","requestHash":"` + base64.StdEncoding.EncodeToString(hash[:]) +
		`","timestamp":1785585600,"audience":"kops.k8s.io/node-bootstrap"}`
	if string(token["data"]) != want {
		t.Errorf("the data are\n%s, want\n%s", token["data"], want)
	}
}

// forgedProof returns a proof whose claim was changed after signing, unless change does nothing.
func forgedProof(t *testing.T, token string, change func(claim map[string]any)) string {
	t.Helper()
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, vtpm.Scheme))
	var parts map[string][]byte
	var claim map[string]any
	if err := errors.Join(json.Unmarshal(raw, &parts), json.Unmarshal(parts["data"], &claim)); err != nil {
		t.Fatal(err)
	}
	change(claim)
	parts["data"], _ = json.Marshal(claim)
	raw, _ = json.Marshal(parts)
	return vtpm.Scheme + base64.StdEncoding.EncodeToString(raw)
}

func TestClaimsThatAreRefused(t *testing.T) {
	root, key := vtpmtest.Start(t)
	good := prove(t, machine(root), body)
	set := func(field string, value any) string {
		return forgedProof(t, good, func(c map[string]any) { c[field] = value })
	}
	for name, tt := range map[string]struct {
		token, body, want string
		asked             int
	}{
		"another scheme":       {"x-pki-tpm e30=", body, `the token is not of type "x-gce-tpm"`, 0},
		"no base64":            {vtpm.Scheme + "!", body, "cannot decode the token", 0},
		"no JSON":              {vtpm.Scheme + "e30=", body, "cannot decode the token", 0},
		"another audience":     {set("audience", "other"), body, `the token is for "other"`, 0},
		"too old":              {set("timestamp", noon().Add(-301*time.Second).Unix()), body, "the clocks differ by 5m1s", 0},
		"of the future":        {set("timestamp", noon().Add(301*time.Second).Unix()), body, "the clocks differ by -5m1s", 0},
		"another request":      {good, body + " ", "the signature is for another request", 0},
		"no hash":              {set("requestHash", nil), body, "the signature is for another request", 0},
		"another project":      {set("gcpProjectID", "other"), body, `the project "other" is not the cluster's project`, 0},
		"no project":           {set("gcpProjectID", ""), body, `the project "" is not the cluster's project`, 0},
		"another region":       {set("zone", "us-test2-a"), body, `"us-test2-a" is not a zone of the region us-test1`, 0},
		"a longer region":      {set("zone", "us-test10-a"), body, `"us-test10-a" is not a zone of the region us-test1`, 0},
		"a path as a zone":     {set("zone", "us-test1-a/../us-test2-b"), body, "is not a zone of the region us-test1", 0},
		"no instance":          {set("instance", ""), body, `"" is not the name of an instance`, 0},
		"a path as a name":     {set("instance", "a/../b"), body, `"a/../b" is not the name of an instance`, 0},
		"an unknown instance":  {set("instance", "nodes-none"), body, "the project has no instance nodes-none in the zone us-test1-a", 1},
		"a claim not signed":   {set("timestamp", noon().Unix()+1), body, "the signature was not made by the instance's attestation key", 1},
		"the data signed anew": {forgedProof(t, good, func(map[string]any) {}), body, "the signature was not made by the instance's attestation key", 1},
	} {
		t.Run(name, func(t *testing.T) {
			v, p := verifier(key)
			_, err := v.Verify(t.Context(), bootstrap.Proof{Token: tt.token, Body: []byte(tt.body)})
			if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), tt.want) || p.asked != tt.asked || p.askedMember != 0 {
				t.Errorf("got %v, want %s; %d and %d questions", err, tt.want, p.asked, p.askedMember)
			}
		})
	}
}

func TestInstancesThatAreRefused(t *testing.T) {
	root, key := vtpmtest.Start(t)
	_, foreign := vtpmtest.Start(t)
	good := prove(t, machine(root), body)
	for name, tt := range map[string]struct {
		change func(*project)
		want   string
		class  fault.Class
	}{
		"of another cluster":         {func(p *project) { p.Cluster = "minimal-example.com" }, "does not belong to this cluster", fault.Denied},
		"without a group":            {func(p *project) { p.Group = "" }, "belongs to no instance group", fault.Denied},
		"that is stopped":            {func(p *project) { p.Running = false }, "is not running", fault.Denied},
		"with another's TPM":         {func(p *project) { p.Key = foreign }, "was not made by the instance's attestation key", fault.Denied},
		"made by hand":               {func(p *project) { p.failedMIG = fault.New(fault.Gone, "by hand") }, "is in no managed instance group", fault.Denied},
		"that say another group":     {func(p *project) { p.member = "bastions" }, "claims to be in the instance group nodes, but is in bastions", fault.Denied},
		"that cannot be looked up":   {func(p *project) { p.failed = fault.New(fault.Denied, "no permission") }, "look up the instance", fault.NotYet},
		"whose group is not told":    {func(p *project) { p.failedMIG = fault.New(fault.Throttled, "slow") }, "look up the managed instance group", fault.NotYet},
		"without a TPM":              {func(p *project) { p.Key = "" }, "Compute Engine returned none", fault.Permanent},
		"with a key of another kind": {func(p *project) { p.Key = ecdsaKey(t) }, "it must be an RSA key", fault.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			v, p := verifier(key)
			tt.change(p)
			proof := bootstrap.Proof{Token: good, Body: []byte(body)}
			if _, err := v.Verify(t.Context(), proof); !fault.Is(err, tt.class) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			_, fine := verifier(key)
			p.Instance, p.member, p.failed, p.failedMIG = fine.Instance, fine.member, nil, nil
			v.Now = func() time.Time { return noon().Add(5 * time.Second) }
			if _, err := v.Verify(t.Context(), proof); err != nil { // a rejected proof can be used again
				t.Errorf("when all is well: %v", err)
			}
		})
	}
}

// Calls that count towards a quota of the project are made only after a proof, or are limited for
// all senders together, of which one leaves half to the others.
func TestForgedTokensCostLittleOfTheQuota(t *testing.T) {
	root, key := vtpmtest.Start(t)
	good := prove(t, machine(root), body)
	v, p := verifier(key)
	now := noon()
	v.Now = func() time.Time { return now }
	verify := func(token string) error {
		_, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte(body)})
		return err
	}
	busy, second := 0, time.Second
	for range 60 {
		for n := range 100 {
			instance := "nodes-x1y2"
			if n%2 == 0 {
				instance = fmt.Sprintf("nodes-%04d", n*60+int(now.Sub(noon())/second))
			}
			if errors.Is(verify(forgedProof(t, good, func(c map[string]any) { c["instance"] = instance })), bootstrap.ErrBusy) {
				busy++
			}
		}
		now = now.Add(second)
	}
	if p.asked > 60+4*60 || busy+p.asked != 6000 {
		t.Errorf("%d questions for 6000 forged tokens in a minute, %d put off", p.asked, busy)
	}
	other := bootstrap.Proof{Token: forgedProof(t, good, func(c map[string]any) { c["instance"] = "nodes-new" }), Body: []byte(body), Sender: netip.MustParsePrefix("10.0.0.9/32")}
	if _, err := v.Verify(t.Context(), other); errors.Is(err, bootstrap.ErrBusy) {
		t.Error("another sender is put off")
	}
	asked := p.asked // the sender's part is used, and the instance's key is cached
	if err := verify(good); err != nil || p.asked != asked+1 {
		t.Errorf("a machine that proves itself: %v, %d questions", err, p.asked-asked)
	}
}

func ecdsaKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestAnAllowedSkewIsTheControllers(t *testing.T) {
	root, key := vtpmtest.Start(t)
	v, _ := verifier(key)
	v.Skew = 10 * time.Second
	v.Now = func() time.Time { return noon().Add(11 * time.Second) }
	if _, err := v.Verify(t.Context(), bootstrap.Proof{Token: prove(t, machine(root), body), Body: []byte(body)}); !fault.Is(err, fault.Denied) {
		t.Errorf("a clock that is 11 s behind: %v", err)
	}
}

func TestTheKeyIsThatOfTheTPM(t *testing.T) {
	root, key := vtpmtest.Start(t)
	again, err := softtpm.Prepare(t.Context(), filepath.Join(t.TempDir(), "other"))
	if err != nil || again == key || !strings.HasPrefix(key, "-----BEGIN PUBLIC KEY-----\n") {
		t.Errorf("two machines have the keys\n%s%s%v", key, again, err)
	}
	tpm, err := vtpm.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tpm.Close() // read only
	if text, err := vtpm.PublicKey(tpm); err != nil || text != key {
		t.Errorf("asked again it is\n%s%v", text, err)
	}
	loaded, err := tpm2.GetCapability{Capability: tpm2.TPMCapHandles, Property: uint32(tpm2.TPMHTTransient) << 24, PropertyCount: 8}.Execute(tpm)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := loaded.CapabilityData.Data.Handles(); err != nil || len(h.Handle) != 0 {
		t.Errorf("the TPM still holds %+v, %v", h, err)
	}
}

func TestAMachineWithoutATPMSaysWhatItNeeds(t *testing.T) {
	_, err := vtpm.Open(t.TempDir())
	if !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "--shielded-vtpm") || !strings.Contains(err.Error(), "/dev/tpmrm0 or /dev/tpm0") {
		t.Errorf("got %v; %s", err, fault.Remedy(err))
	}
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "dev"), 0o700), os.WriteFile(filepath.Join(root, "dev/tpm0"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := vtpm.Open(root); err == nil {
		t.Error("a file is a TPM")
	}
}

func TestATPMWithoutATemplateSaysWhatItNeeds(t *testing.T) {
	vtpmtest.Start(t) // which skips the test if there is no swtpm
	dir, err := os.MkdirTemp("", "tpm")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) // errors do not matter
	tpm, err := softtpm.Start(t.Context(), filepath.Join(dir, "state"), filepath.Join(dir, "tpm"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tpm.Stop() // there is nothing to save
	p := machine("")
	p.Open = tpm.Open
	if _, err := p.Prove(t.Context(), []byte(body)); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "0x1c10001") || !strings.Contains(fault.Remedy(err), "--shielded-vtpm") {
		t.Errorf("got %v", err)
	}
}
