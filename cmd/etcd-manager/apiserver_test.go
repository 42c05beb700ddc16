package main

import (
	"context"
	"maps"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kops.local/kops/internal/etcd"
	"kops.local/kops/internal/etcd/certs"
	"kops.local/kops/internal/etcd/etcdtest"
	"kops.local/kops/internal/kubetest"
	"kops.local/kops/internal/pki"
)

// TestAnAPIServerSeesWhatWasRestored restores etcd below an API server and a
// controller that both go on to run: their caches follow, with no restart.
func TestAnAPIServerSeesWhatWasRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 1, EtcdVersion: etcdtest.New}, "etcd-a")
	kubetest.Programs(t)
	a := c.peers[0]
	c.start(a)
	c.whole(etcdtest.New, a)
	k := newKube(c, a)

	k.write("kept", "before")
	k.write("deleted-later", "before")
	backup := c.nextBackup()
	k.write("kept", "after")
	k.write("made-later", "after")
	k.remove("deleted-later")
	before := k.revision()
	k.sees("before the restore", map[string]string{"kept": "after", "made-later": "after"})

	start := time.Now()
	if _, err := etcd.RequestRestore(t.Context(), c.store, backup, start); err != nil {
		t.Fatal(err)
	}
	k.sees("after it", map[string]string{"kept": "before", "deleted-later": "before"})
	t.Logf("the API server and a controller that watches it saw the restored objects after %s", time.Since(start).Round(time.Millisecond))
	if after := k.revision(); after <= before {
		t.Errorf("the revision went back from %d to %d", before, after)
	}
	k.write("made-afterwards", "1")
	k.sees("and goes on", map[string]string{"kept": "before", "deleted-later": "before", "made-afterwards": "1"})
}

// kube is an API server, and a controller's cache of its objects.
type kube struct {
	c      *testCluster
	client kubernetes.Interface

	mu   sync.Mutex
	seen map[string]string // by the controller
}

func newKube(c *testCluster, at *testPeer) *kube {
	c.t.Helper()
	authorities, err := certs.Load(c.path("pki"), time.Now)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := authorities.WritePair(c.path("apiserver"), "etcd", authorities.Clients, pki.Client, "kube-apiserver"); err != nil {
		c.t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(c.path("apiserver"), name) }
	config := kubetest.Serve(c.t, "--etcd-servers=https://127.0.0.1:"+at.client, "--etcd-cafile="+file("ca.crt"), "--etcd-certfile="+file("etcd.crt"), "--etcd-keyfile="+file("etcd.key"))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	k := &kube{c: c, client: client, seen: map[string]string{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	note := func(o any) {
		m := o.(*corev1.ConfigMap)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.seen[m.Name] = m.Data["value"]
	}
	forget := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.seen, o.(*corev1.ConfigMap).Name)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: forget}); err != nil {
		c.t.Fatal(err)
	}
	factory.Start(c.t.Context().Done())
	factory.WaitForCacheSync(c.t.Context().Done())
	return k
}

// write makes an object, or changes it.
func (k *kube) write(name, value string) {
	k.c.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	k.do("write "+name, func(ctx context.Context) error {
		_, err := k.client.CoreV1().ConfigMaps("default").Update(ctx, m, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = k.client.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{})
		}
		return err
	})
}

func (k *kube) remove(name string) {
	k.c.t.Helper()
	k.do("delete "+name, func(ctx context.Context) error {
		return k.client.CoreV1().ConfigMaps("default").Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func (k *kube) do(what string, f func(ctx context.Context) error) {
	k.c.t.Helper()
	k.c.eventually(what, 15*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(k.c.t.Context(), 3*time.Second)
		defer cancel()
		return f(ctx) == nil
	})
}

// list returns the objects, of which a revision of "" asks etcd, and "0" the API
// server's cache; and the revision of the list.
func (k *kube) list(ctx context.Context, revision string) (map[string]string, int) {
	list, err := k.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: revision})
	if err != nil {
		return nil, 0
	}
	out := map[string]string{}
	for _, m := range list.Items {
		out[m.Name] = m.Data["value"]
	}
	n, err := strconv.Atoi(list.ResourceVersion)
	if err != nil {
		k.c.t.Fatalf("a revision is no number: %v", err)
	}
	return out, n
}

func (k *kube) revision() int {
	_, n := k.list(k.c.t.Context(), "")
	return n
}

// sees waits until etcd, the API server's cache and the controller's have the same objects.
func (k *kube) sees(when string, want map[string]string) {
	k.c.t.Helper()
	var stored, cached, seen map[string]string
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(k.c.t.Context(), 3*time.Second)
		stored, _ = k.list(ctx, "")
		cached, _ = k.list(ctx, "0")
		cancel()
		k.mu.Lock()
		seen = maps.Clone(k.seen)
		k.mu.Unlock()
		if maps.Equal(stored, want) && maps.Equal(cached, want) && maps.Equal(seen, want) {
			return
		}
	}
	k.c.t.Fatalf("%s, not within 40 s %v: stored %v, in the API server's cache %v, in the controller's %v", when, want, stored, cached, seen)
}
