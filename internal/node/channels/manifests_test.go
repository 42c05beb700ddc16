package channels

import (
	"testing"

	"kops.local/kops/internal/model/addons"
)

func TestManifestsAreReadAsTheirWriterMeans(t *testing.T) {
	const text = "kind: DaemonSet\napiVersion: apps/v1\nmetadata:\n  name: a\n---\n\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\n"
	ours, err := addons.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode([]byte(text))
	if err != nil || len(got) != len(ours) {
		t.Errorf("got %d objects, the writer sees %d: %v", len(got), len(ours), err)
	}
}
