package kops_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/finding"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

// oldKey is the base64 of the key with which a cluster encrypts before a rotation.
const oldKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// encryptionConfig returns the configuration in the store.
func (b *bench) encryptionConfig() *encryption.Config {
	b.Helper()
	secret, ok := b.secretText(pki.EncryptionConfig)
	c, err := encryption.Parse([]byte(secret))
	if !ok || err != nil {
		b.Fatalf("there %t: %v", ok, err)
	}
	return c
}

// secretText reads a secret of the cluster.
func (b *bench) secretText(secret string) (string, bool) {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL)
	if err != nil {
		b.Fatal(err)
	}
	data, _, err := s.Get(b.Context(), name+"/secrets/"+secret)
	if fault.Is(err, fault.Gone) {
		return "", false
	}
	out, derr := pki.DecodeSecret(data)
	if err != nil || derr != nil {
		b.Fatal(err, derr)
	}
	return out.Reveal(), true
}

// records stores a backup of the current time as a manager does, with what it knows about the keys.
func (b *bench) records(keys []encryption.KeyID, cluster string, all ...etcdtest.KeyValue) string {
	b.Helper()
	a := backup.Archive{Store: b.etcdStore("main"), Now: func() time.Time { return b.now }, Encryption: func() []encryption.KeyID { return keys }}
	made, _, err := a.Take(b.Context(), fakeSnapshot{etcdtest.SnapshotOf(b, all...), cluster, int64(len(all))}, etcd.Spec{MemberCount: 1, EtcdVersion: "3.6.12"}, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	return made.Name
}

// fakeSnapshot creates a snapshot.
type fakeSnapshot struct {
	data    []byte
	cluster string
	keys    int64
}

func (o fakeSnapshot) Snapshot(_ context.Context, w io.Writer) (backup.Origin, error) {
	_, err := w.Write(o.data)
	return backup.Origin{EtcdVersion: "3.6.12", Revision: 2, Keys: o.keys, Cluster: o.cluster}, err
}

// encrypting returns a cluster that encrypts, whose machine is rolled, and a backup of it.
func encrypting(t *testing.T) (b *bench, o kops.RotateOptions, backup string) {
	t.Helper()
	b, _, o = rotating(t)
	b.encrypt("{secretbox: {keys: [{name: a, secret: " + oldKey + "}]}}")
	b.set("cluster", "spec.encryptionConfig=true")
	b.apply(kops.UpdateOptions{})
	backup = b.records(b.encryptionConfig().Keys(), "", etcdtest.Secretbox(t, "/registry/secrets/a/one", "a", oldKey))
	return b, o, backup
}

// encrypt stores a configuration with which API servers encrypt, given the provider.
func (b *bench) encrypt(provider string) {
	b.Helper()
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [\"*.none\"], providers: [" + provider + "]}]"
	_, err := b.Secrets(nil).Create(b.Context(), name, kops.SecretEncryptionConfig, []byte(config), true)
	b.ok(err)
}

// Only a hash of the configuration that machines run with is known, so that the keys cannot be compared.
func TestAnotherEncryptionConfigurationIsARisk(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	b.encrypt("{secretbox: {keys: [{name: a, secret: " + oldKey + "}]}}")
	b.set("cluster", "spec.encryptionConfig=true")
	b.apply(kops.UpdateOptions{})
	changed := func() bool {
		return slices.ContainsFunc(b.preview(kops.UpdateOptions{}).Risks, func(f finding.Finding) bool { return f.Rule == "encryption-changed" })
	}
	if changed() {
		t.Error("an unchanged configuration is a risk")
	}
	b.encrypt("{identity: {}}")
	if !changed() {
		t.Error("another configuration is not a risk")
	}
}

func (b *bench) listedBackup(backup string) kops.EtcdBackup {
	b.Helper()
	list, err := b.Etcd().Backups(b.Context(), name, "main")
	i := slices.IndexFunc(list, func(x kops.EtcdBackup) bool { return x.Name == backup })
	if err != nil || i < 0 {
		b.Fatalf("%s is not listed: %v, %v", backup, list, err)
	}
	return list[i]
}

func TestABackupFromBeforeARotationIsRestored(t *testing.T) {
	b, o, before := encrypting(t)
	if got := b.listedBackup(before).Encryption.String(); got != "readable" {
		t.Errorf("before the rotation it is %q", got)
	}
	const kept = 90 * 24 * time.Hour
	first := b.now.Add(kept).Format(time.DateOnly)
	done, err := b.Rotate(t.Context(), name, "encryption", o)
	if err != nil || done.Step != "done" || !strings.Contains(done.NoBackup, "took no backup") {
		t.Fatalf("%+v, %v", done, err)
	}
	if keys := b.encryptionConfig().Keys(); len(keys) != 1 || keys[0].Name == "a" {
		t.Errorf("API servers read by %v", keys)
	}
	last := b.now.Add(kept).Format(time.DateOnly) // the clock advances whenever the rotation waits
	got := b.listedBackup(before).Encryption.String()
	if until, ok := strings.CutPrefix(got, "needs retired key a (kept until "); !ok || strings.TrimSuffix(until, ")") < first || strings.TrimSuffix(until, ")") > last {
		t.Errorf("after the rotation, from %s to %s, it is %q", first, last, got)
	}
	after := b.records(b.encryptionConfig().Keys(), "", etcdtest.KeyValue{Key: "/registry/pods/a"})
	if got := b.listedBackup(after).Encryption.String(); got != "readable" {
		t.Errorf("one from after the rotation is %q", got)
	}

	preview, err := b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{})
	if err != nil || len(preview.PutBack) != 1 || preview.PutBack[0].Name != "a" || !strings.Contains(preview.Reencrypt, "kops rotate encryption") || len(b.encryptionConfig().Keys()) != 1 {
		t.Errorf("the preview: %+v, %v", preview, err)
	}
	r, err := b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true, ReachOptions: o.ReachOptions})
	if !fault.Is(err, fault.NotYet) || r.Requested || b.restoreRequests() > 0 {
		t.Errorf("while machines do not have the key: %+v, %v", r, err)
	}
	r, err = b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true, ReachOptions: o.ReachOptions, Roll: o.Roll})
	if err != nil || !r.Requested || b.restoreRequests() != 1 || len(r.PutBack) != 1 || r.Unconfirmed != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	config := b.encryptionConfig()
	if keys := config.Keys(); len(keys) != 2 || keys[0].Name == "a" || keys[1].Name != "a" {
		t.Errorf("API servers read by %v", keys)
	}
	if got := b.listedBackup(before).Encryption.String(); got != "readable" {
		t.Errorf("with the key put back it is %q", got)
	}
	if _, err := b.Rotate(t.Context(), name, "encryption", o); err != nil {
		t.Fatal(err)
	}
	if keys := b.encryptionConfig().Keys(); len(keys) != 1 || keys[0].Name == "a" {
		t.Errorf("after the next rotation API servers read by %v", keys)
	}

	if err := b.Secrets(nil).Delete(t.Context(), name, pki.RetiredKeys); err != nil {
		t.Fatal(err)
	}
	if got := b.listedBackup(before).Encryption.String(); got != "unreadable: key a gone" {
		t.Errorf("without the key it is %q", got)
	}
	_, err = b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true})
	expectTexts(t, err, before, "key a of secretbox", pki.RetiredKeys[:len("encryptionconfig")])
	if !fault.Is(err, fault.Permanent) || b.restoreRequests() != 1 {
		t.Errorf("a backup that nobody can read: %v, %s", err, fault.Remedy(err))
	}
}

func TestABackupWithEncryptedObjectsNeedsEncryption(t *testing.T) {
	b, o, before := encrypting(t)
	refused := func(when string, remedies ...string) {
		t.Helper()
		if got := b.listedBackup(before).Encryption.String(); got != "set spec.encryptionConfig: true first" {
			t.Errorf("%s it is %q", when, got)
		}
		config, _ := b.secretText(pki.EncryptionConfig)
		_, err := b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true, ReachOptions: o.ReachOptions, Roll: o.Roll})
		expectTexts(t, err, before, "spec.encryptionConfig is not true")
		for _, r := range append(remedies, "set spec.encryptionConfig: true first") {
			if !strings.Contains(fault.Remedy(err), r) {
				t.Errorf("%s the remedy is %s", when, fault.Remedy(err))
			}
		}
		if now, _ := b.secretText(pki.EncryptionConfig); !fault.Is(err, fault.Permanent) || b.restoreRequests() > 0 || now != config {
			t.Errorf("%s: %v, the secret is %s", when, err, now)
		}
	}
	b.now = b.now.Add(time.Hour)
	plain := b.records(nil, "", etcdtest.KeyValue{Key: "/registry/pods/a"})
	b.set("cluster", "spec.encryptionConfig=false")
	refused("with the key in the secret")
	b.set("cluster", "spec.encryptionConfig=true")
	if _, err := b.Rotate(t.Context(), name, "encryption", o); err != nil {
		t.Fatal(err)
	}
	b.set("cluster", "spec.encryptionConfig=false")
	refused("with a retired key")
	if err := b.Secrets(nil).Delete(t.Context(), name, pki.EncryptionConfig); err != nil {
		t.Fatal(err)
	}
	refused("without the secret", "kops create secret encryptionconfig")
	if _, err := b.Etcd().Restore(t.Context(), name, "main", plain, kops.RestoreEtcdOptions{}); err != nil {
		t.Errorf("a backup without encrypted objects: %v", err)
	}
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [\"*.none\"], providers: [{secretbox: {keys: [{name: b, secret: " + oldKey[:42] + "E=}]}}]}]"
	if _, err := b.Secrets(nil).Create(t.Context(), name, kops.SecretEncryptionConfig, []byte(config), false); err != nil {
		t.Fatal(err)
	}
	b.set("cluster", "spec.encryptionConfig=true")
	if got := b.listedBackup(before).Encryption.String(); !strings.HasPrefix(got, "needs retired key a") {
		t.Errorf("after that it is %q", got)
	}
	r, err := b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true, ReachOptions: o.ReachOptions, Roll: o.Roll})
	if err != nil || !r.Requested || len(b.encryptionConfig().Keys()) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// restoreRequests returns the number of requested restores of main.
func (b *bench) restoreRequests() int {
	b.Helper()
	c, err := etcd.ReadControl(b.Context(), b.etcdStore("main"))
	if err != nil {
		b.Fatal(err)
	}
	return len(c.Commands)
}

// If the API does not answer it is unknown which keys API servers read with, and a restore helps.
func TestAKeyIsPutBackThoughTheAPIIsAway(t *testing.T) {
	b, o, before := encrypting(t)
	if _, err := b.Rotate(t.Context(), name, "encryption", o); err != nil {
		t.Fatal(err)
	}
	o.Server = "https://127.0.0.1:1"
	r, err := b.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true, ReachOptions: o.ReachOptions})
	if err != nil || !r.Requested || r.Unconfirmed == "" || len(b.encryptionConfig().Keys()) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A retired key is kept as long as a backup needs it, and removed with the next change of the keys after that.
func TestARetiredKeyIsRemovedWhenNoBackupNeedsIt(t *testing.T) {
	b, _, before := encrypting(t)
	replace := func(key string) {
		t.Helper()
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [\"*.none\"], providers: [{secretbox: {keys: [{name: " + key + ", secret: " + oldKey[:42] + "E=}]}}]}]"
		if _, err := b.Secrets(nil).Create(t.Context(), name, kops.SecretEncryptionConfig, []byte(text), true); err != nil {
			t.Fatal(err)
		}
	}
	retired := func() string {
		t.Helper()
		text, _ := b.secretText(pki.RetiredKeys)
		l, err := encryption.ParseRetired(text)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, k := range l.Keys {
			names = append(names, k.Name)
		}
		return strings.Join(names, " ")
	}
	replace("b")
	b.now = b.now.Add(100 * 24 * time.Hour)
	replace("c")
	if got := retired(); got != "a b" {
		t.Errorf("while a backup needs it the retired keys are %q", got)
	}
	if err := store.DeleteAll(t.Context(), b.etcdStore("main"), []string{before + etcd.SnapshotName, before + etcd.MetaName, etcd.FactsKey(before)}); err != nil {
		t.Fatal(err)
	}
	replace("d")
	if got := retired(); got != "b c" {
		t.Errorf("when none does they are %q", got)
	}
}

func TestADrillDecrypts(t *testing.T) {
	b, o, before := encrypting(t)
	c := b.managed(func(r etcd.Request) etcd.Answer {
		return etcd.Answer{Done: true, Drill: &etcd.DrillResult{Backup: r.Backup, Keys: 1, Same: 1}}
	})
	drill := func() (*kops.EtcdDrill, error) {
		t.Helper()
		out, err := c.Etcd().Drill(t.Context(), name, "main", kops.EtcdCareOptions{Wait: time.Minute})
		if out == nil {
			t.Fatal(err)
		}
		return out.Drill, err
	}
	if d, err := drill(); err != nil || d.Backup.Name != before || !slices.Equal(d.Decrypted, []string{"/registry/secrets/a/one"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := b.Rotate(t.Context(), name, "encryption", o); err != nil {
		t.Fatal(err)
	}
	if d, err := drill(); err != nil || d.Backup.Encryption.State != kops.EtcdNeedsKey || len(d.Decrypted) != 1 {
		t.Errorf("by a retired key: %+v, %v", d, err)
	}
	if err := b.Secrets(nil).Delete(t.Context(), name, pki.RetiredKeys); err != nil {
		t.Fatal(err)
	}
	_, err := drill()
	expectTexts(t, err, before, "key a of secretbox")
}

func TestABackupOfAnotherClusterIsNotRestoredByDefault(t *testing.T) {
	b := newAppliedBench(t)
	restore := func(from string, foreign bool) (*kops.EtcdRestore, error) {
		t.Helper()
		return b.Etcd().Restore(t.Context(), name, "main", from, kops.RestoreEtcdOptions{Foreign: foreign})
	}
	put := func(all ...etcdtest.KeyValue) string { // like cp
		t.Helper()
		return b.storesBackup("main", etcdtest.Packed(t, etcdtest.SnapshotOf(t, all...)))
	}
	ours, theirs := etcdtest.Namespace("ours"), etcdtest.Namespace("theirs")
	older := put(ours)
	b.now = b.now.Add(time.Hour)
	elsewhere := put(theirs)
	if _, err := restore(elsewhere, false); err != nil {
		t.Errorf("where nothing was recorded, as by kOps' manager: %v", err)
	}
	b.now = b.now.Add(time.Hour)
	own := b.records(nil, "ours", ours)
	b.now = b.now.Add(time.Hour)
	copied := put(etcdtest.KeyValue{Key: "/registry/pods/a"})
	b.now = b.now.Add(time.Hour)
	kopsOnes := put(ours)
	now := b.now.Add(time.Minute)
	b.now = b.now.Add(30 * 24 * time.Hour)
	future := put(theirs)
	b.now = now
	for backup, want := range map[string]string{
		older: "", own: "", kopsOnes: "",
		elsewhere: "another cluster: its namespace kube-system has the UID theirs, not ours",
		copied:    "this cluster's etcd-manager did not record it, but",
		future:    "in the future",
	} {
		_, err := restore(backup, false)
		if want == "" && err != nil {
			t.Errorf("%s is of this cluster: %v", backup, err)
		}
		if want == "" {
			continue
		}
		expectTexts(t, err, backup, want)
		if !strings.Contains(fault.Remedy(err), "option:Foreign") {
			t.Errorf("the remedy is %s", fault.Remedy(err))
		}
		if r, err := restore(backup, true); err != nil || !strings.Contains(r.Backup.Foreign, want) {
			t.Errorf("when it is asked for: %+v, %v", r, err)
		}
	}
	if r, err := restore(kops.LatestBackup, false); err != nil || r.Backup.Name != kopsOnes || len(r.Skipped) != 1 {
		t.Errorf("the latest: %+v, %v", r, err)
	}
	// Later backups do not continue from a name with a future time.
	if next := b.records(nil, "ours", ours); next >= future || next <= kopsOnes {
		t.Errorf("the next backup is %s", next)
	}
	if err := etcd.RequestBackup(t.Context(), b.etcdStore("main"), b.now); err != nil {
		t.Fatal(err)
	}
	if c, err := etcd.ReadControl(t.Context(), b.etcdStore("main")); err != nil || c.BackupAfter.After(b.now.Add(time.Minute)) {
		t.Errorf("asked for is a backup after %v, %v", c.BackupAfter, err)
	}
}

// For its user, a restore is done when an API server serves the restored data.
func TestARestoreSaysWhetherTheAPIIsBack(t *testing.T) {
	b, r, o := rotating(t)
	before := b.takesBackup("main")
	c := b.client(func(cfg *kops.Config) {
		cfg.World.Sleep = func(ctx context.Context, d time.Duration) error {
			b.now = b.now.Add(d)
			control, err := etcd.ReadControl(ctx, b.etcdStore("main"))
			if err == nil && len(control.Commands) > 0 {
				err = etcd.DeleteCommand(ctx, b.etcdStore("main"), control.Commands[0].Key)
			}
			return err
		}
	})
	for away, back := range map[int]bool{0: true, 20: true, 1000: false} {
		r.mu.Lock()
		r.away = away
		r.mu.Unlock()
		start := b.now
		got, err := c.Etcd().Restore(t.Context(), name, "main", before, kops.RestoreEtcdOptions{Apply: true, Wait: time.Minute, ReachOptions: o.ReachOptions})
		if err != nil || !got.Restored || got.Serving != back || (got.NotServing == "") != back || b.now.Sub(start) < time.Duration(min(away, 60))*time.Second {
			t.Errorf("away %d times: %+v after %s, %v", away, got, b.now.Sub(start), err)
		}
	}
}
