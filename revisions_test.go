package kops_test

import (
	"fmt"
	"strings"
	"testing"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdrpiWcjtqwIbxAuIZ6FuLkQm1c6PwFfmzdLzIDFzMD jane"

// TestEveryChangeOfTheStoreIsARevision makes each kind of change, and checks its line in the
// history.
func TestEveryChangeOfTheStoreIsARevision(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	b.revised("stored", "Cluster created", "InstanceGroup/control-plane-here created", "InstanceGroup/nodes-here created")
	b.apply(kops.UpdateOptions{})
	b.revised("done")

	b.set("nodes-here", "spec.maxSize=5")
	b.revised("stored", "InstanceGroup/nodes-here spec.maxSize")
	cl := b.get()
	cl.Spec.Annotations = map[string]string{"team": "shop"}
	b.replace(cl.Spec)
	b.revised("stored", "Cluster metadata.annotations.team")
	key := &api.SSHCredential{Spec: api.SSHCredentialSpec{PublicKey: sshKey}}
	key.Name, key.Kind, key.Labels = "admin", api.KindSSHCredential, map[string]string{api.LabelCluster: name}
	objects := []api.Object{key}
	b.replace(objects...)
	b.expectMessage("added the SSH public key ")
	b.replace(objects...) // they exist already
	b.expectMessage("added the SSH public key ")
	b.ok(b.Keys().Delete(t.Context(), name))
	b.expectMessage("deleted all SSH public keys")
	_, _, err := b.Keys().Add(t.Context(), name, []byte(sshKey))
	b.ok(err)
	b.expectMessage("added the SSH public key ")
	if _, err := b.Clusters().Remove(t.Context(), objects, true); err != nil {
		t.Fatal(err)
	}
	b.expectMessage("deleted the SSH public key ")
	_, err = b.RollBackUpgrade(t.Context(), name, kops.RollBackOptions{Apply: true, Revision: 2})
	b.ok(err)
	b.revised("stored", "Cluster metadata.annotations.team", "InstanceGroup/nodes-here spec.maxSize")
	b.ok(b.DeleteGroup(t.Context(), name, "nodes-here", kops.DeleteOptions{Apply: true}))
	b.revised("stored", "InstanceGroup/nodes-here deleted")

	b.writeLease(`{"user": "joe", "host": "desktop", "pid": 7, "command": "kops update", "id": "1", "fence": 99, "expires": "2026-01-02T03:05:00Z"}`)
	b.ok(b.Leases().Break(t.Context(), name))
	b.expectMessage(`broke the lease of "kops update", of joe on desktop (process 7)`)
	b.ok(b.Leases().Break(t.Context(), name)) // it is not held
	if all := b.history(); len(all) != 12 {
		t.Errorf("there are %d revisions: %+v", len(all), all)
	}
}

// TestARevisionHoldsTheObjects: a revision read by number has them, a list does not.
func TestARevisionHoldsTheObjects(t *testing.T) {
	b := newAppliedBench(t)
	b.set("nodes-here", "spec.maxSize=5")
	r, err := b.Clusters().Revision(t.Context(), name, 3)
	if err != nil || !strings.Contains(r.Spec, "maxSize: 5") || r.Who != "jane@laptop" || r.Command != "kops test" || r.Version != "1.37.0" || !r.Time.Equal(b.now) {
		t.Fatalf("%+v, %v", r, err)
	}
	if all := b.history(); all[0].Number != 3 || all[0].Spec != "" {
		t.Errorf("%+v", all)
	}
	_, err = b.Clusters().Revision(t.Context(), name, 4)
	expectTexts(t, err, "cluster a.example.com has no revision 4")
	remedies(t, err, "to list them: kops get revisions --name a.example.com")
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get() *kops.Cluster {
	b.Helper()
	cl, err := b.Clusters().Get(b.Context(), name)
	b.ok(err)
	return cl
}

func (b *bench) replace(objs ...api.Object) {
	b.Helper()
	_, err := b.Clusters().Replace(b.Context(), objs, false)
	b.ok(err)
}

func (b *bench) history() []kops.Revision {
	b.Helper()
	all, err := b.Clusters().Revisions(b.Context(), name)
	b.ok(err)
	return all
}

// revised checks the result and the changes of the newest revision.
func (b *bench) revised(result string, changes ...string) {
	b.Helper()
	r := b.history()[0]
	if got := fmt.Sprint(r.Changes); r.Result != result || got != fmt.Sprint(changes) {
		b.Errorf("revision %d is %s %s, want %s %s", r.Number, r.Result, got, result, changes)
	}
}

// expectMessage checks the message of the newest revision.
func (b *bench) expectMessage(message string) {
	b.Helper()
	if r := b.history()[0]; r.Result != "done" || !strings.HasPrefix(r.Message, message) {
		b.Errorf("revision %d is %s %q, want %q", r.Number, r.Result, r.Message, message)
	}
}

// writeLease writes the lease of the cluster.
func (b *bench) writeLease(lease string) {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL)
	b.ok(err)
	_, err = s.Put(b.Context(), ".kops/"+name+"/lease", []byte(lease), store.PutOptions{})
	b.ok(err)
}
