package compat

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
)

// FuzzDecode feeds arbitrary input to the decoder. It must not panic; it may refuse; and
// it must write whatever it reads, in both versions, so that it reads the same again.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/inputs/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
			f.Add(doc)
		}
	}
	for _, c := range badDocs {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, _, err := Decode(data, Options{})
		lenient, _, lenientErr := Decode(data, Options{Lenient: true})
		if err != nil {
			objects = lenient // lenient mode may accept what strict mode refuses
		} else if lenientErr != nil {
			t.Fatalf("only the lenient reading fails: %v", lenientErr)
		}
		for _, o := range objects {
			for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
				roundTrip(t, o, version)
			}
		}
	})
}

// roundTrip writes an object in a version and reads it again.
func roundTrip(t *testing.T, o api.Object, version string) {
	written := mustEncode(t, version, o)
	again, warnings, err := Decode(written, Options{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("what was written is refused: %v %v\n%s", err, warnings, written)
	}
	if len(again) != 1 {
		t.Fatalf("%d objects of one:\n%s", len(again), written)
	}
	// Compared as written: an empty list and a missing one are the same.
	if diff := cmp.Diff(string(written), string(mustEncode(t, version, again...))); diff != "" {
		t.Fatalf("read again (+) differs:\n%s", diff)
	}
}

// BenchmarkDecodeLargeCluster reads a cluster with seventy groups.
func BenchmarkDecodeLargeCluster(b *testing.B) {
	cluster, err := os.ReadFile("testdata/inputs/written-completed.yaml")
	if err != nil {
		b.Fatal(err)
	}
	groups, err := os.ReadFile("testdata/inputs/mixed-instances-spot.yaml")
	if err != nil {
		b.Fatal(err)
	}
	group := groups[bytes.LastIndex(groups, []byte("\n---\n")):]
	data := append(cluster, bytes.Repeat(group, 70)...)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		objects, _, err := Decode(data, Options{})
		if err != nil || len(objects) != 71 {
			b.Fatal(len(objects), err)
		}
	}
}
