package local

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops"
)

// restoreAcrossRotation replaces the key with which the API servers encrypt Secrets, as in a new
// cluster, and restores a backup from before: the key is put back, the cluster serves, and
// Secrets are readable.
func (w *world) restoreAcrossRotation() {
	w.Helper()
	w.secret("before")
	before := w.backUp("main")
	if got := w.encryptionOf(before.name); got.State != kops.EtcdReadable {
		w.Errorf("before the rotation the backup is %s", got)
	}
	start := time.Now()
	if !w.rotate(w.Context(), "encryption", "to the end", func(string) {}) {
		w.Fatal("the rotation ended before its end")
	}
	w.figures.seconds("rotation of the key that encrypts", time.Since(start))
	w.secret("after")
	if got := w.encryptionOf(before.name); got.State != kops.EtcdNeedsKey {
		w.Errorf("after the rotation the backup is %s", got)
	}

	start = time.Now()
	var r kops.EtcdRestore
	w.ok(json.Unmarshal([]byte(w.must("etcd", "restore", cluster, before.name, "--yes", "-o", "json").out), &r))
	w.figures.seconds("restore of a backup that needs a retired key", time.Since(start))
	if len(r.PutBack) != 1 || !r.Restored || !r.Serving || r.Unconfirmed != "" {
		w.Errorf("the restore: %+v", r)
	}
	w.waitUntilValid()
	secrets, err := w.client().CoreV1().Secrets("default").List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	names := map[string]string{}
	for _, s := range secrets.Items {
		names[s.Name] = string(s.Data["value"])
	}
	if names["before"] != "before" || names["after"] != "" {
		w.Errorf("after the restore the Secrets are %v", names)
	}
	w.must("etcd", "drill", cluster)
}

// secret stores a Secret.
func (w *world) secret(name string) {
	w.Helper()
	_, err := w.client().CoreV1().Secrets("default").Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"value": name}}, metav1.CreateOptions{})
	w.ok(err)
}

// encryptionOf returns the encryption status of a back-up in the list of back-ups: the keys that it needs.
func (w *world) encryptionOf(backup string) kops.EtcdEncryption {
	w.Helper()
	var list []kops.EtcdBackup
	w.ok(json.Unmarshal([]byte(w.must("etcd", "list", cluster, "--etcd", "main", "-o", "json").out), &list))
	i := slices.IndexFunc(list, func(b kops.EtcdBackup) bool { return b.Name == backup })
	if i < 0 {
		w.Fatal(fmt.Errorf("the backup %s is not listed", backup))
	}
	return list[i].Encryption
}
