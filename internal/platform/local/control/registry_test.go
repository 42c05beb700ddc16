package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/store"
)

// machineFile returns the file of a machine with its role.
func machineFile(t *testing.T, name, group, key, role string) *fstest.MapFile {
	t.Helper()
	text, err := json.Marshal(map[string]any{"name": name, "group": group, "address": "10.77.0.11", "publicKey": key, "labels": map[string]string{"role": role}})
	if err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: text}
}

func TestTheLocalCloudReportsItsMachines(t *testing.T) {
	st := store.NewMemory("memory://state")
	if _, err := st.Put(t.Context(), layout.NodeConfig("Node", "nodes"), []byte("KubeletConfig:\n  nodeLabels: {example.com/disk: fast}\n"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := bootstrap.EncodePublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	r := Registry{Stored: controller.Stored{Base: st, Secrets: st}, Folder: fstest.MapFS{
		"worker-1.json": machineFile(t, "worker-1", "nodes", public, "node"),
		"cp-1.json":     machineFile(t, "cp-1", "cp", public, "control-plane"),
		"lone.json":     machineFile(t, "lone", "", public, ""),
		"other.json":    machineFile(t, "worker-1", "nodes", public, "node"),
		"broken.json":   {Data: []byte("{")},
		".new-1234":     {Data: []byte("{}")},
	}}
	r.Self = "cp-1"
	if names, err := r.machines(); err != nil || !slices.Equal(names, []string{"broken", "cp-1", "lone", "other", "worker-1"}) {
		t.Errorf("machines %v, %v", names, err)
	}
	verifier := bootstrap.NewMachineKeyVerifier(r, time.Now)
	verify := func(node string) (bootstrap.Identity, error) {
		token, err := bootstrap.MachineKey{Node: node, Key: key, Now: time.Now, Rand: rand.Reader}.Prove(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return verifier.Verify(t.Context(), bootstrap.Proof{Token: token})
	}
	id, err := verify("worker-1")
	if err != nil || id.NodeName != "worker-1" || id.InstanceGroup != "nodes" || !slices.Equal(id.Names, []string{"worker-1", "10.77.0.11"}) {
		t.Errorf("got %+v, %v", id, err)
	}
	for node, says := range map[string]string{"cp-1": "no key of the machine cp-1", "absent": "no machine absent is known"} {
		if _, err := verify(node); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", node, err)
		}
	}
	for _, node := range []string{"broken", "other"} { // errors of the registry are not for the sender
		if _, err := verify(node); err == nil || fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", node, err)
		}
	}
	for node, want := range map[string]string{"worker-1": "nodes", "cp-1": "cp", "lone": "", "absent": ""} {
		got, err := r.GroupOf(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		if got != want || (want == "") != fault.Is(err, fault.Gone) {
			t.Errorf("%s is of the group %q: %v", node, got, err)
		}
	}
	if marks, err := r.Marks(t.Context(), "nodes"); err != nil || marks.Labels["example.com/disk"] != "fast" {
		t.Errorf("%v, %v", marks, err)
	}
}

// unreadableFolder is a folder that cannot be read.
type unreadableFolder struct{}

func (unreadableFolder) Open(string) (fs.File, error) { return nil, errors.New("no such folder") }

// A list without the machine that reads it would remove every node.
func TestWhichMachinesAreGone(t *testing.T) {
	entries := func(machines ...string) fs.FS {
		out := fstest.MapFS{".new": {}} // it is there
		for _, m := range machines {
			out[m+".json"] = &fstest.MapFile{Data: []byte("{}")}
		}
		return out
	}
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	for name, tt := range map[string]struct {
		folder fs.FS
		gone   []string
		says   string
	}{
		"all exist":           {entries("cp-1", "a"), nil, ""},
		"one is gone":         {entries("cp-1"), []string{"a"}, ""},
		"an empty list":       {entries(), nil, "lacks cp-1"},
		"a list of others":    {entries("cp-2"), nil, "ignored"},
		"it cannot be listed": {unreadableFolder{}, nil, "no such folder"},
	} {
		r := Registry{Folder: tt.folder, Self: "cp-1"}
		got, err := r.roster().ListTerminated(t.Context(), nodes)
		if !slices.Equal(got, tt.gone) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: gone are %v, %v", name, got, err)
		}
	}
	if got, err := (Registry{Folder: entries("cp-1", "a"), Self: "cp-1"}).roster().ListExisting(t.Context(), []string{"a", "b"}); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("alive are %v, %v", got, err)
	}
}
