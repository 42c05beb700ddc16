package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/test/kubetest"
)

// TestAPIServersSeeRestoredData restores one back-up three times under running API servers
// and controllers: each time, what every API server lists, from etcd and from its cache, and
// what the controllers know, must equal the content of etcd.
func TestAPIServersSeeRestoredData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c")
	kubetest.Programs(t)
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	restoreThrice(t, c, []*kube{newKube(c, c.peers[0]), newKube(c, c.peers[1])}, true)
}

// TestAPIServersSeeRestoredDataAtALowerRevision does the same with an etcdutl that cannot raise
// the revision: a restart is sufficient for API servers, but not for controllers, which
// continue to watch from the revision that they know.
func TestAPIServersSeeRestoredDataAtALowerRevision(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 1, EtcdVersion: etcdtest.New}, "etcd-a")
	kubetest.Programs(t)
	real := filepath.Join(c.programs, "etcd-v"+etcdtest.New)
	c.programs = c.path("programs")
	folder := filepath.Join(c.programs, filepath.Base(real))
	wrapper := "#!/bin/sh\ncase \"$*\" in *--help) echo nothing of revisions; exit;; esac\nexec " + real + "/etcdutl \"$@\"\n"
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "etcdutl"), []byte(wrapper), 0o755),
		os.Symlink(real+"/etcd", filepath.Join(folder, "etcd"))); err != nil {
		t.Fatal(err)
	}
	c.start(c.peers[0])
	c.awaitMembers(etcdtest.New, c.peers...)
	restoreThrice(t, c, []*kube{newKube(c, c.peers[0])}, false)
}

func restoreThrice(t *testing.T, c *testCluster, servers []*kube, raised bool) {
	k := servers[0]
	k.write("kept", "before")
	k.write("deleted-later", "before")
	backup := c.nextBackup()
	k.write("kept", "after")
	k.write("made-later", "after")
	k.remove("deleted-later")
	before := k.revision()
	want := map[string]string{"kept": "after", "made-later": "after"}
	for round := range 3 {
		for i := range 8 { // so that each time more was written since the back-up, all of which is lost
			name := fmt.Sprintf("ghost-%d-%d", round, i)
			k.write(name, "ghost")
			want[name] = "ghost"
		}
		for i, s := range servers {
			s.expectView(fmt.Sprintf("before restore %d, API server %d", round, i), want, raised)
		}
		start := time.Now()
		if _, err := etcd.RequestRestore(t.Context(), c.store, backup, start); err != nil {
			t.Fatal(err)
		}
		want = map[string]string{"kept": "before", "deleted-later": "before"}
		for i, s := range servers {
			s.expectView(fmt.Sprintf("after restore %d, API server %d", round, i), want, raised)
			t.Logf("API server %d and who watches it saw the restored objects after %s", i, time.Since(start).Round(time.Millisecond))
		}
		if after := k.revision(); raised && after <= before {
			t.Errorf("the revision went back from %d to %d", before, after)
		} else {
			before = after
		}
		name := fmt.Sprintf("made-afterwards-%d", round)
		k.write(name, "1")
		want[name] = "1"
	}
	for i, s := range servers {
		s.expectView(fmt.Sprintf("and goes on, API server %d", i), want, raised)
	}
}

// kube is an API server, and a controller's cache of its objects.
type kube struct {
	c      *testCluster
	client kubernetes.Interface
	etcd   *clientv3.Client // of the member that the API server uses

	mu             sync.Mutex
	controllerView map[string]string // by the controller
}

func newKube(c *testCluster, at *testPeer) *kube {
	c.t.Helper()
	authorities, err := certs.Load(c.path("pki"), time.Now)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := authorities.WritePair(c.path("apiserver-"+at.id), "etcd", authorities.Clients, pki.Client, "kube-apiserver"); err != nil {
		c.t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(c.path("apiserver-"+at.id), name) }
	config := kubetest.ServeRestarting(c.t, "--etcd-servers=https://127.0.0.1:"+at.client, "--etcd-cafile="+file("ca.crt"), "--etcd-certfile="+file("etcd.crt"), "--etcd-keyfile="+file("etcd.key"))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	k := &kube{c: c, client: client, etcd: c.client(at), controllerView: map[string]string{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	note := func(o any) {
		m := o.(*corev1.ConfigMap)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.controllerView[m.Name] = m.Data["value"]
	}
	forget := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.controllerView, o.(*corev1.ConfigMap).Name)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: forget}); err != nil {
		c.t.Fatal(err)
	}
	factory.Start(c.t.Context().Done())
	factory.WaitForCacheSync(c.t.Context().Done())
	return k
}

// write creates or changes an object.
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
	k.c.eventually(what, time.Minute, func() bool {
		ctx, cancel := context.WithTimeout(k.c.t.Context(), 3*time.Second)
		defer cancel()
		return f(ctx) == nil
	})
}

// list returns the objects, and the revision of the list. The revision "" reads from etcd, and
// "0" from the API server's cache.
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

// objectsInEtcd returns the names of the objects in etcd itself.
func (k *kube) objectsInEtcd(ctx context.Context) []string {
	const folder = "/registry/configmaps/default/"
	all, err := k.etcd.Get(ctx, folder, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil
	}
	var out []string
	for _, kv := range all.Kvs {
		out = append(out, strings.TrimPrefix(string(kv.Key), folder))
	}
	return out
}

// expectView waits until etcd, the API server, its cache, and the controller's if controller is
// set, have the same objects.
func (k *kube) expectView(when string, want map[string]string, controller bool) {
	k.c.t.Helper()
	var stored []string
	var listed, cached, seen map[string]string
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(k.c.t.Context(), 3*time.Second)
		stored = k.objectsInEtcd(ctx)
		listed, _ = k.list(ctx, "")
		cached, _ = k.list(ctx, "0")
		cancel()
		k.mu.Lock()
		seen = maps.Clone(k.controllerView)
		k.mu.Unlock()
		if slices.Equal(stored, slices.Sorted(maps.Keys(want))) && maps.Equal(listed, want) && maps.Equal(cached, want) && (!controller || maps.Equal(seen, want)) {
			return
		}
	}
	k.c.t.Fatalf("%s, not within 90 s %v: etcd holds %v, listed are %v, in the API server's cache %v, in the controller's %v", when, want, stored, listed, cached, seen)
}
