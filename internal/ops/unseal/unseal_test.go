package unseal_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/node/etcd/snapshot"
	"kops.local/kops/internal/ops/unseal"
	"kops.local/kops/internal/test/kubetest"
)

// encodedSecret returns the base64 of a key of 32 equal bytes.
func encodedSecret(b byte) string {
	return base64.StdEncoding.EncodeToString(slices.Repeat([]byte{b}, 32))
}

func readSnapshot(t *testing.T, data []byte) snapshot.Contents {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func retiredKey(provider, name, secret string) encryption.Retired {
	return encryption.Retired{Provider: provider, Key: encryption.Key{Name: name, Secret: secret}}
}

// Overwritten objects need no key, and both of two keys with the same name are found.
func TestWhatABackupNeeds(t *testing.T) {
	c := readSnapshot(t, etcdtest.SnapshotOf(t,
		etcdtest.Namespace("0b1c"),
		etcdtest.Secretbox(t, "/registry/secrets/a/one", "gone", encodedSecret(9)),
		etcdtest.Secretbox(t, "/registry/secrets/a/one", "key1", encodedSecret(1)),
		etcdtest.Secretbox(t, "/registry/secrets/a/two", "key1", encodedSecret(1)),
		etcdtest.Secretbox(t, "/registry/secrets/a/three", "key1", encodedSecret(2)),
		etcdtest.KeyValue{Key: "/registry/secrets/a/four", Value: []byte("k8s:enc:kms:v2:cloud:what the plugin made")},
		etcdtest.KeyValue{Key: "/registry/pods/a/b", Value: []byte("k8s\x00plain")}))
	if c.Cluster != "0b1c" || c.Keys != 6 {
		t.Errorf("it holds %d keys of the cluster %q", c.Keys, c.Cluster)
	}
	needs := unseal.Needs(c.Sealed, []encryption.Retired{retiredKey("secretbox", "key1", encodedSecret(3)), retiredKey("secretbox", "key1", encodedSecret(1)), retiredKey("secretbox", "key1", encodedSecret(2)), retiredKey("aescbc", "key1", encodedSecret(1))})
	if len(needs) != 2 || !needs[0].KMS() || needs[0].Name != "cloud" || needs[0].Missing {
		t.Fatalf("%+v", needs)
	}
	if n := needs[1]; n.Name != "key1" || n.Objects != 3 || n.Missing || len(n.Keys) != 2 || n.Keys[0].Secret != encodedSecret(1) || n.Keys[1].Secret != encodedSecret(2) {
		t.Errorf("%+v", n)
	}
	if n := unseal.Needs(c.Sealed, []encryption.Retired{retiredKey("secretbox", "key1", encodedSecret(1))}); !n[1].Missing {
		t.Errorf("with one of two keys: %+v", n[1])
	}
	if n := unseal.Needs(c.Sealed, []encryption.Retired{retiredKey("secretbox", "other", encodedSecret(1))}); !n[1].Missing {
		t.Errorf("with a key of another name, which API servers do not try: %+v", n[1])
	}
}

// TestWhatAnAPIServerEncryptsIsDecrypted lets a real API server encrypt with each provider.
func TestWhatAnAPIServerEncryptsIsDecrypted(t *testing.T) {
	kubetest.Programs(t)
	keys := []encryption.Retired{retiredKey("secretbox", "a", encodedSecret(1)), retiredKey("aescbc", "b", encodedSecret(2)), retiredKey("aesgcm", "c", encodedSecret(3))}
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	for i, resource := range []string{"secrets", "configmaps", "serviceaccounts"} {
		k := keys[i]
		config += fmt.Sprintf("- {resources: [%s], providers: [{%s: {keys: [{name: %s, secret: %s}]}}, {identity: {}}]}\n", resource, k.Provider, k.Name, k.Secret)
	}
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	url := kubetest.Etcd(t)
	client, err := kubernetes.NewForConfig(kubetest.Serve(t, "--etcd-servers="+url, "--encryption-provider-config="+file))
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "sealed"}
	_, serr := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
	_, merr := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	_, aerr := client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	system, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err := errors.Join(serr, merr, aerr, err); err != nil {
		t.Fatal(err)
	}
	c := readSnapshot(t, newSnapshot(t, url))
	if c.Cluster != string(system.UID) {
		t.Errorf("the cluster is %q, not %s", c.Cluster, system.UID)
	}
	var ways []string
	for _, n := range unseal.Needs(c.Sealed, keys) {
		ways = append(ways, n.Provider)
		if n.Missing || len(n.Keys) != 1 {
			t.Errorf("%s: %+v", n.Provider, n)
		}
	}
	if !slices.Equal(ways, []string{"aescbc", "aesgcm", "secretbox"}) {
		t.Errorf("encrypted by %v", ways)
	}
	for i := range keys {
		keys[i].Secret = encodedSecret(7)
	}
	for _, n := range unseal.Needs(c.Sealed, keys) {
		if !n.Missing {
			t.Errorf("%s is decrypted by another key", n.Provider)
		}
	}
}

// newSnapshot returns a snapshot of an etcd.
func newSnapshot(t *testing.T, url string) []byte {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(url, ","), Context: context.WithoutCancel(t.Context()), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}
