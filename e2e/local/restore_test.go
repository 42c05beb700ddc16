package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// TestEtcdRestore destroys the control plane with its disks, and restores both etcd clusters from backups.
func TestEtcdRestore(t *testing.T) {
	localtest.ClusterTurn(t, 3, 4)
	w := newWorld(t)
	w.create("--node-count", "1")
	w.put("before")
	main, events := w.backUp("main"), w.backUp("events")
	w.figures.seconds("take two backups", main.took+events.took)
	w.put("after")

	lost := time.Now()
	w.destroyControlPlanes(w.controlPlanes()...)
	w.restore("main", main.name)
	w.restore("events", events.name)
	w.wait("the API, after the restore", clusterTime, func() error { return w.checkConfigMap("before") })
	w.figures.seconds("all of the control plane lost, to an API with the restored objects", time.Since(lost))
	if err := w.checkConfigMap("after"); !kerrors.IsNotFound(err) {
		t.Errorf("what was written after the backup: %v", err)
	}
	w.waitUntilJoined(nodes, 1)
	w.waitUntilValid()
	w.figures.seconds("all of the control plane lost, to ready again", time.Since(lost))
	w.checkUnchanged()
	if localtest.IsFull() {
		w.restoreSame(main.name)
	}
	w.deleteNode()
	w.delete()
}

// restoreSame restores the back-up that the cluster already comes from.
func (w *world) restoreSame(backup string) {
	w.Helper()
	w.put("again")
	start := time.Now()
	w.restore("main", backup)
	w.wait("the API, after a second restore of the same", clusterTime, w.checkWatchCache)
	w.figures.seconds("a second restore, to lists that agree with etcd", time.Since(start))
	w.waitUntilValid()
}

// checkWatchCache returns nil when objects written after the backup are gone, and the list in the
// API server's memory is the same as etcd's.
func (w *world) checkWatchCache() error {
	switch err := w.checkConfigMap("again"); {
	case err == nil:
		return errors.New("what was written after the backup is there")
	case !kerrors.IsNotFound(err):
		return fmt.Errorf("look for what was written after the backup: %w", err)
	}
	var lists [2][]string
	for i, version := range []string{"", "0"} { // of etcd, of the API server's memory
		list, err := w.client().CoreV1().ConfigMaps("").List(w.Context(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return err
		}
		for _, m := range list.Items {
			lists[i] = append(lists[i], fmt.Sprint(m.Namespace, "/", m.Name, " ", m.UID))
		}
		slices.Sort(lists[i])
	}
	if !slices.Equal(lists[0], lists[1]) {
		return fmt.Errorf("etcd has %v, and the API server serves %v", lists[0], lists[1])
	}
	return nil
}

// deleteNode deletes the Node of a worker whose machine is running: it registers again, and runs pods.
func (w *world) deleteNode() {
	w.Helper()
	name := w.machines(nodes)[0].Name
	old, err := w.client().CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	w.ok(err)
	start := time.Now()
	w.kubectl("delete", "node", name)
	w.wait("the Node "+name+", registered anew", clusterTime, func() error {
		now, err := w.client().CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
		if err == nil && now.UID == old.UID {
			return fmt.Errorf("the Node %s was not deleted", name)
		}
		return err
	})
	w.figures.seconds("a Node that was deleted is registered anew", time.Since(start))
	w.waitUntilJoined(nodes, 1)
	w.kubectl("apply", "-f", "testdata/web.yaml")
	first := podNames(w.waitForServers(1))
	if now := podNames(w.waitUntilServed(1)); !slices.Equal(first, now) {
		w.Errorf("the Node's first pods %v are replaced by %v: they began with addresses of its former range", first, now)
	}
	w.figures.seconds("a Node that was deleted runs pods that serve again", time.Since(start))
	w.waitUntilValid()
}

// backup is a completed back-up.
type backup struct {
	name string
	took time.Duration
}

// backUp takes a back-up of an etcd cluster.
func (w *world) backUp(etcd string) backup {
	w.Helper()
	r := w.must("etcd", "backup", cluster, "--etcd", etcd, "--yes", "-o", "json")
	var backups []kops.EtcdBackup
	w.ok(json.Unmarshal([]byte(r.out), &backups))
	if len(backups) != 1 || backups[0].Damaged || backups[0].Empty && etcd == "main" {
		w.Fatalf("kops etcd backup shows %+v", backups)
	}
	return backup{backups[0].Name, r.took}
}

// put creates a ConfigMap.
func (w *world) put(name string) {
	w.Helper()
	_, err := w.client().CoreV1().ConfigMaps("default").Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.ok(err)
}

// checkConfigMap returns nil if the ConfigMap exists.
func (w *world) checkConfigMap(name string) error {
	_, err := w.client().CoreV1().ConfigMaps("default").Get(w.Context(), name, metav1.GetOptions{})
	return err
}

// destroyControlPlanes kills control plane machines and destroys their etcd disks. The keeper is
// paused meanwhile, so that no new machine sees the old data.
func (w *world) destroyControlPlanes(doomed ...machine.Machine) {
	w.Helper()
	unlock, err := w.site.Lock(w.Context())
	w.ok(err)
	defer unlock()
	for _, m := range doomed {
		w.kill(m.Name)
		disks := 0
		for _, f := range m.Folders {
			if filepath.Dir(f.Host) == w.site.Path(site.Volumes) {
				w.emptyFolder(f.Host)
				disks++
			}
		}
		if disks != 2 {
			w.Fatalf("%s has the folders %v", m.Name, m.Folders)
		}
	}
}

// emptyFolder destroys the contents of a folder, which must not be empty.
func (w *world) emptyFolder(dir string) {
	w.Helper()
	files, err := os.ReadDir(dir)
	w.ok(err)
	if len(files) == 0 {
		w.Fatalf("%s was empty", dir)
	}
	for _, f := range files {
		w.ok(os.RemoveAll(filepath.Join(dir, f.Name())))
	}
}

// restore requests the restore of a back-up, after a preview that requests nothing.
func (w *world) restore(etcd, backup string) {
	w.Helper()
	preview := []string{"etcd", "restore", cluster, backup, "--etcd", etcd, "-o", "json"}
	for _, args := range [][]string{preview, append(preview, "--yes")} {
		var r kops.EtcdRestore
		w.ok(json.Unmarshal([]byte(w.must(args...).out), &r))
		if asked := len(args) > len(preview); r.Requested != asked || r.Backup.Name != backup {
			w.Fatal(fmt.Errorf("kops %v: %+v", args, r))
		}
	}
}
