package metal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/metal/onhost"
	connect "kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/platform/ssh/sshtest"
)

const cluster = "m.example.com"

// rig is a host whose file system is a folder, and that has no services.
type rig struct {
	*testing.T
	root   string
	server *sshtest.Server
	client *client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, root: t.TempDir()}
	bin := t.TempDir()
	for _, name := range []string{"systemctl", "pkill", "ip", "umount", "curl"} {
		r.ok(os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n[ "+name+" != curl ]\n"), 0o755)) //nolint:gosec // a program
	}
	r.ok(os.WriteFile(filepath.Join(bin, "hostname"), []byte("#!/bin/sh\necho node1\n"), 0o755)) //nolint:gosec // a program
	r.server = sshtest.Start(t, bin, "SSH_CONNECTION=10.0.0.1 4711 10.0.0.7 22")
	r.client = newClient(connect.Options{Keys: []string{r.server.Client}}, nil)
	r.client.root = r.root
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// enroll adds the host to the inventory.
func (r *rig) enroll(group string) *api.Host {
	r.Helper()
	g := &api.InstanceGroup{}
	g.Name = group
	h, err := enroll(r.Context(), &platform.Session{Client: r.client}, platform.Enrollment{Group: g,
		Target: connect.Target{Address: r.server.Address, User: "root", Fingerprint: ssh.FingerprintSHA256(r.server.HostKey)}})
	r.ok(err)
	r.client.inventory = []*api.Host{h}
	return h
}

func (r *rig) read(path string) string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.root, path))
	r.ok(err)
	return string(text)
}

func (r *rig) exists(path string) bool {
	_, err := os.Stat(filepath.Join(r.root, path))
	return err == nil
}

func (r *rig) list() []*Host {
	r.Helper()
	all, err := listHosts(r.Context(), r.client, resource.Scope{Cluster: cluster})
	r.ok(err)
	return all
}

func TestAHostProvesItsIdentity(t *testing.T) {
	r := newRig(t)
	h := r.enroll("nodes")
	if h.Name != "node1" || h.Namespace != "kops-system" || h.Spec.InstanceGroup != "nodes" || address(h) != "10.0.0.7" ||
		h.Annotations[api.AnnotationSSH] != "root@"+r.server.Address || !strings.Contains(h.Spec.PublicKey, "BEGIN PUBLIC KEY") {
		t.Errorf("got %+v", h)
	}
	info, err := os.Stat(filepath.Join(r.root, onhost.Key))
	r.ok(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %s", info.Mode())
	}
	if again := r.enroll("nodes"); again.Spec.PublicKey != h.Spec.PublicKey {
		t.Error("a second enrollment made another key")
	}
	other := h.DeepCopy()
	other.Name = "node0"
	if err := checkUnique([]*api.Host{other}, h); !fault.Is(err, fault.Conflict) {
		t.Errorf("two hosts of one address: %v", err)
	}
	for text, says := range map[string]string{"Node_1\n10.0.0.7\n" + h.Spec.PublicKey: "hostnamectl", "node1\n\n" + h.Spec.PublicKey: "reports the address", "node1\n10.0.0.7\nPEM": "the machine's own key", "": "cannot parse"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error()+fault.Remedy(err), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// The life cycle of a host: created, changed in place, and reset.
func TestTheLifeOfAHost(t *testing.T) {
	r := newRig(t)
	r.enroll("control-plane")
	store := t.TempDir()
	put := func(key, text string) {
		r.ok(os.MkdirAll(filepath.Dir(filepath.Join(store, key)), 0o700))
		r.ok(os.WriteFile(filepath.Join(store, key), []byte(text), 0o600))
	}
	for key, text := range map[string]string{layout.Config: "spec", layout.Hosts + "node1": "host", layout.Healthcheck: "pod", layout.MachineKey("node0"): "{}",
		"pki/" + layout.Keyset("ca"): "key", layout.EtcdBackups("main") + "/control/etcd-cluster-spec": "3", layout.EtcdBackups("main") + "/2026/backup": "data"} {
		put(key, text)
	}
	folder, spec := filepath.Join("/", store), layout.EtcdBackups("main")+"/control/etcd-cluster-spec"
	listed := func(keys ...string) resource.Content { // with a different digest each time
		return resource.Text(resource.Lit(strings.Join(keys, " 1\n") + " 1\n"))
	}
	boot := func(word string) resource.Content {
		return resource.Text(resource.Lit("echo " + word + " >> " + filepath.Join(r.root, "booted")))
	}
	want := &Host{Cluster: cluster, Name: "node1", Group: "control-plane", Boot: boot("one"), State: listed(layout.Healthcheck, layout.MachineKey("node0"), spec), Folder: folder, Peers: []string{"10.0.0.7"}, Home: "10.0.0.7", Disks: []string{onhost.Disk(cluster, "main", 0)}}
	kind := hosts.Erase()
	if len(r.list()) > 0 {
		t.Error("a host that was only enrolled is a member")
	}
	_, err := kind.Create(t.Context(), r.client, want)
	r.ok(err)
	for path, text := range map[string]string{folder + "/" + layout.Healthcheck: "pod", folder + "/pki/" + layout.Keyset("ca"): "key",
		folder + "/" + layout.EtcdBackups("main") + "/control/etcd-cluster-spec": "3", onhost.Peers: `{"addresses":["10.0.0.7"],"home":"10.0.0.7"}` + "\n", "booted": "one\n"} {
		if got := r.read(path); got != text {
			t.Errorf("%s holds %q", path, got)
		}
	}
	for _, path := range []string{layout.Config, layout.Hosts + "node1", layout.EtcdBackups("main") + "/2026/backup"} {
		if r.exists(folder + "/" + path) {
			t.Errorf("%s was copied", path)
		}
	}
	have := r.list()
	if len(have) != 1 || len(kind.Schema().Diff(want, have[0])) > 0 {
		t.Fatalf("the host is observed as %+v", have)
	}

	put(layout.Healthcheck, "another pod")
	next := *want
	next.Boot, next.State, next.Peers = boot("two"), listed(layout.Healthcheck, layout.MachineKey("node1"), spec), []string{"10.0.0.7", "10.0.0.8"}
	_, err = kind.Set(t.Context(), r.client, have[0], &next, kind.Schema().Diff(&next, have[0]))
	r.ok(err)
	if b, err := bootRecord(t.Context(), &platform.Session{Client: r.client}, nil, platform.Machine{Name: "node1"}); err != nil || len(b.Report) > 0 {
		t.Errorf("the boot record is %+v, %v", b, err)
	}
	if have = r.list(); len(kind.Schema().Diff(&next, have[0])) > 0 || r.read("booted") != "one\ntwo\n" || r.read(folder+"/"+layout.Healthcheck) != "another pod" || r.exists(folder+"/"+layout.MachineKey("node0")) {
		t.Errorf("after the change it is observed as %+v", have[0])
	}

	// the host applies another node configuration itself; before it is a member it boots again
	hashed := func(hash string) *Host {
		h := next
		h.Boot = resource.Text(resource.Lit("echo hashed >> " + filepath.Join(r.root, "booted") + "\nexit 0\nNodeupConfigHash: " + hash + "\n"))
		return &h
	}
	for i, hash := range []string{"one", "two", "three"} {
		if i == 2 {
			r.ok(os.MkdirAll(filepath.Dir(filepath.Join(r.root, paths.Running)), 0o755))
			r.ok(os.WriteFile(filepath.Join(r.root, paths.Running), nil, 0o600))
		}
		_, err = kind.Set(t.Context(), r.client, have[0], hashed(hash), kind.Schema().Diff(hashed(hash), have[0]))
		r.ok(err)
		if have = r.list(); len(kind.Schema().Diff(hashed(hash), have[0])) > 0 {
			t.Errorf("with the hash %s it is observed as %+v", hash, have[0])
		}
	}
	if got := r.read("booted"); got != "one\ntwo\nhashed\nhashed\n" {
		t.Errorf("it booted as %q", got)
	}

	if _, err := listHosts(t.Context(), r.client, resource.Scope{Cluster: "other.example.com"}); err == nil || !strings.Contains(err.Error(), "belongs to the cluster "+cluster) {
		t.Errorf("a host of another cluster: %v", err)
	}
	r.ok(kind.Delete(t.Context(), r.client, have[0]))
	if len(r.list()) > 0 || r.exists(folder) || r.exists(onhost.Disks+"/"+cluster+"--main--0") || !r.exists(onhost.Key) {
		t.Error("the host was not reset, or lost its key")
	}
	r.ok(kind.Delete(t.Context(), r.client, have[0])) // again
}

func TestABootThatFailsIsMadeAgain(t *testing.T) {
	r := newRig(t)
	r.enroll("nodes")
	h := &Host{Cluster: cluster, Name: "node1", Group: "nodes", Boot: resource.Text(resource.Lit("echo no way; exit 4"))}
	if _, err := hosts.Erase().Create(t.Context(), r.client, h); err == nil || !strings.Contains(err.Error(), "no way") {
		t.Errorf("got %v", err)
	}
	if len(r.list()) > 0 {
		t.Error("a host whose boot failed is a member")
	}
}

func TestAStateStoreOnTheHostItselfIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.enroll("control-plane")
	store := t.TempDir()
	r.ok(os.MkdirAll(filepath.Join(r.root, store), 0o700))
	r.ok(os.WriteFile(filepath.Join(r.root, store, layout.Config), nil, 0o600))
	h := &Host{Cluster: cluster, Name: "node1", Boot: resource.Text(resource.Lit("true")), Folder: store, Peers: []string{"10.0.0.7"}}
	_, err := hosts.Erase().Create(t.Context(), r.client, h)
	r.ok(err)
	r.ok(hosts.Erase().Delete(t.Context(), r.client, h))
	if !r.exists(store + "/" + layout.Config) {
		t.Error("the state store is gone")
	}
}

func TestAHostThatIsLostIsNamed(t *testing.T) {
	r := newRig(t)
	h := r.enroll("nodes")
	h.Annotations[api.AnnotationSSH] = "root@127.0.0.1:1"
	_, err := listHosts(t.Context(), r.client, resource.Scope{Cluster: cluster})
	if !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "kops delete host node1 --lost --yes") {
		t.Errorf("got %v, %s", err, fault.Remedy(err))
	}
}

// hostOf returns a host of the inventory.
func hostOf(name, group, at string) *api.Host {
	h := &api.Host{}
	h.Name, h.Spec.InstanceGroup, h.Spec.PublicKey = name, group, "PEM of "+name
	h.Annotations = map[string]string{api.AnnotationAddress: at}
	return h
}

func group(name string, role api.InstanceGroupRole) *api.InstanceGroup {
	g := &api.InstanceGroup{}
	g.Name, g.Spec.Role = name, role
	return g
}

func modelOf(t *testing.T, change func(*platform.Model)) (*graph.Graph, error) {
	t.Helper()
	cp := "cp"
	in := platform.Model{Cluster: &api.Cluster{}, Groups: []*api.InstanceGroup{group("cp", api.RoleControlPlane), group("nodes", api.RoleNode)},
		Hosts: []*api.Host{hostOf("a", "cp", "10.0.0.2"), hostOf("b", "cp", "10.0.0.1"), hostOf("c", "nodes", "10.0.0.3")},
		UserData: func(g *api.InstanceGroup, at ...resource.Value) (resource.Content, error) {
			return resource.Text(resource.Concat(append([]resource.Value{resource.Lit(g.Name + " ")}, at...)...)), nil
		}}
	in.Cluster.Name, in.Cluster.Spec.ConfigStore.Base = cluster, "file:///state/"+cluster
	in.Cluster.Spec.EtcdClusters = []api.EtcdClusterSpec{{Name: "main", EtcdMembers: []api.EtcdMemberSpec{{Name: "x", InstanceGroup: new(string)}, {Name: "y", InstanceGroup: &cp}}}}
	change(&in)
	g := &graph.Graph{}
	return g, buildModel(in, g)
}

func TestTheModelOfAnInventory(t *testing.T) {
	g, err := modelOf(t, func(*platform.Model) {})
	if err != nil {
		t.Fatal(err)
	}
	host := func(name string) (resource.Node, *Host) {
		n, ok := g.Get(resource.Address{Kind: "metal_host", Name: name})
		if !ok {
			t.Fatalf("there is no host %s", name)
		}
		return n, n.Want.(*Host)
	}
	_, a := host("a")
	b, other := host("b")
	c, worker := host("c")
	if !slices.Equal(a.Peers, []string{"10.0.0.1", "10.0.0.2"}) || a.Folder != "/state/"+cluster || digest(a.State) == "" || !slices.Equal(a.Disks, []string{"/mnt/disks/" + cluster + "--main--1"}) {
		t.Errorf("the host of the control plane: %+v", a)
	}
	if text, _ := worker.Boot.Value().Known(); text != "nodes 10.0.0.110.0.0.2" || digest(worker.State) != "" || len(worker.Peers) > 0 {
		t.Errorf("the worker: %q, %+v", text, worker)
	}
	if !slices.Contains(b.After, resource.Address{Kind: "metal_host", Name: "a"}) || !slices.Contains(c.After, b.Address) {
		t.Error("the hosts are not made one after the other")
	}
	if a.Home != "10.0.0.2" || other.Home != a.Home {
		t.Errorf("the backups are at home at %s and %s", a.Home, other.Home)
	}
	for name, key := range map[string]string{"a": "", "c": "PEM of c"} {
		n, ok := g.Get(resource.Address{Kind: "store_file", Name: "machine-" + name})
		if !ok {
			t.Fatalf("%s is not registered", name)
		}
		var m bootstrap.Machine
		text, _ := n.Want.(*managedfile.File).Content.Value().Known()
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.PublicKey != key || m.Node != name {
			t.Errorf("%s is registered as %+v: %v", name, m, err)
		}
	}

	if g, err = modelOf(t, func(m *platform.Model) { m.Cluster.Spec.API.PublicName = "10.0.0.100" }); err != nil {
		t.Fatal(err)
	}
	_, worker = host("c")
	if text, _ := worker.Boot.Value().Known(); text != "nodes 10.0.0.100" {
		t.Errorf("with a chosen address: %q", text)
	}
	if g, err = modelOf(t, func(m *platform.Model) { m.Hosts = nil }); err != nil || g.Len() > 0 {
		t.Errorf("without hosts: %v", err)
	}
	for says, change := range map[string]func(*platform.Model){
		"all workers":    func(m *platform.Model) { m.Hosts = m.Hosts[2:] },
		"does not exist": func(m *platform.Model) { m.Groups = m.Groups[:1] },
		"is not a folder": func(m *platform.Model) {
			m.Cluster.Spec.ConfigStore.Base = "s3://bucket/x"
		},
	} {
		if _, err := modelOf(t, change); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestServersAreTheHostsWithMembersOfEtcd(t *testing.T) {
	var c *api.Cluster
	if _, err := modelOf(t, func(m *platform.Model) { c = m.Cluster }); err != nil {
		t.Fatal(err)
	}
	if got := controlPlaneAddresses(c, []*api.Host{hostOf("a", "cp", "10.0.0.2"), hostOf("c", "nodes", "10.0.0.3"), hostOf("b", "cp", "10.0.0.1")}); !slices.Equal(got, []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("got %v", got)
	}
}
