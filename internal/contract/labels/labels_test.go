package labels_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/contract/labels"
)

// What one side writes, the other reads; the texts are from the documentation.
func TestAnnotationsAreReadAsTheyAreWritten(t *testing.T) {
	running := labels.Running{Hash: "h=", Files: map[string]string{"manifests/etcd/main-x.yaml": "2c26b46b", "secrets/dockerconfig": "00000000"}}
	apply := labels.Apply{Hash: "h=", Nonce: "n"}
	failed := labels.Applied{Nonce: "n", Error: "no room", Phase: "files"}
	node := map[string]string{labels.NodeConfig: labels.Write(running), labels.ApplyConfig: labels.Write(apply), labels.ApplyResult: labels.Write(failed)}
	want := map[string]string{
		"kops.k8s.io/node-config":  `{"hash":"h=","files":{"manifests/etcd/main-x.yaml":"2c26b46b","secrets/dockerconfig":"00000000"}}`,
		"kops.k8s.io/apply-config": `{"hash":"h=","nonce":"n"}`,
		"kops.k8s.io/apply-result": `{"nonce":"n","done":false,"error":"no room","phase":"files"}`,
	}
	if d := cmp.Diff(want, node); d != "" {
		t.Error(d)
	}
	gotRunning, there, err := labels.Read[labels.Running](node, labels.NodeConfig)
	if d := cmp.Diff(running, gotRunning); d != "" || !there || err != nil {
		t.Error(d, there, err)
	}
	gotApply, there, err := labels.Read[labels.Apply](node, labels.ApplyConfig)
	if d := cmp.Diff(apply, gotApply); d != "" || !there || err != nil {
		t.Error(d, there, err)
	}
	gotFailed, there, err := labels.Read[labels.Applied](node, labels.ApplyResult)
	if d := cmp.Diff(failed, gotFailed); d != "" || !there || err != nil {
		t.Error(d, there, err)
	}
	if _, there, err := labels.Read[labels.Apply](nil, labels.ApplyConfig); there || err != nil {
		t.Error("an annotation that is not there:", there, err)
	}
	if _, there, err := labels.Read[labels.Apply](map[string]string{labels.ApplyConfig: "x"}, labels.ApplyConfig); !there || err == nil {
		t.Error("what is no JSON is read")
	}
}

func TestDigests(t *testing.T) {
	if got := labels.Digest([]byte("foo")); got != "2c26b46b" { // as computed by sha256sum
		t.Error(got)
	}
	one, err := labels.DigestSecret("secrets/dockerconfig", []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := labels.DigestSecret("secrets/encryptionconfig", []byte("s"))
	if err != nil || one == other || len(one) != 8 {
		t.Error("a secret's key is no salt:", one, other, err)
	}
}

func TestSplitTaint(t *testing.T) {
	for text, want := range map[string][3]string{
		"a=b:NoSchedule": {"a", "b", "NoSchedule"}, "example.com/a:NoExecute": {"example.com/a", "", "NoExecute"}, "a=b=c:d:e": {"a", "b=c", "d:e"}, "a": {"a"}, "a=b": {"a", "b"}, "": {},
	} {
		if key, value, effect := labels.SplitTaint(text); [3]string{key, value, effect} != want {
			t.Errorf("the taint %q is %q, %q, %q", text, key, value, effect)
		}
	}
}
