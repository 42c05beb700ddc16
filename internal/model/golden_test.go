package model_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store/onstore"
	"kops.local/kops/internal/store/open/user"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

// bucket replaces the goldens' store memfs://.
const bucket = "s3://testingBucket/"

// oneKey is the key of every keyset here: generating keys is slow, and the tests compare no keys.
var oneKey = sync.OnceValues(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func issuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: func() time.Time { return time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC) },
		Generate: func() (crypto.Signer, error) { return oneKey() }}
}

// input returns the model's input for a golden: its completed cluster, and its groups as package
// complete completes them.
func input(t *testing.T, dir string) model.Input {
	t.Helper()
	decode := func(pattern string) (*api.Cluster, []*api.InstanceGroup) {
		return spectest.Read(t, bytes.ReplaceAll(goldentest.Read(t, dir, pattern), []byte("memfs://"), []byte(bucket)))
	}
	world := spectest.Facts(t, "../spec/complete/testdata")
	// nodeup's digest, which is not compared anywhere
	world.FileHashes = map[string]string{"https://kops.internal/binaries/kops/*/nodeup": strings.Repeat("0", 64)}
	cluster, groups := decode("in-v1alpha2.yaml")
	done, findings := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: spectest.Stable(t), KopsVersion: "1.37.0"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	in := model.Input{Traits: &platformtest.Of(cluster).Traits, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: "1.34.0-beta.1", Region: "us-test-1", Facts: world, Buckets: onstore.Buckets(user.Backends(func(string) string { return "" }, http.DefaultClient))}
	in.Cluster, _ = decode("data/*cluster-completed.spec_content")
	var err error
	if in.Keysets, _, err = pki.Ensure(nil, pki.KeysetNames(in.Cluster), issuer()); err != nil {
		t.Fatal(err)
	}
	return in
}

// files returns the managed files of a graph, under Terraform's names.
func files(t *testing.T, nodes []resource.Node) map[string]*managedfile.File {
	t.Helper()
	out := map[string]*managedfile.File{}
	for _, n := range nodes {
		if f, ok := n.Want.(*managedfile.File); ok {
			if out[n.Name] != nil {
				t.Errorf("%s is declared twice", n.Name)
			}
			out[n.Name] = f
		}
	}
	return out
}

// object matches the managed files in a golden.
var object = regexp.MustCompile(`(?s)resource "aws_s3_object" "([^"]+)" \{.*?_object_(\S+)_content".*?key\s+= "([^"]+)"`)

func TestManagedFilesEqualTheGoldens(t *testing.T) {
	for name, dir := range goldentest.Cases(t, "update_cluster") {
		t.Run(name, func(t *testing.T) {
			in := input(t, dir)
			nodes, _, err := model.Build(in)
			if err != nil {
				t.Fatal(err)
			}
			want, got := map[string]string{}, map[string]string{}
			for _, m := range object.FindAllStringSubmatch(string(goldentest.Read(t, dir, "kubernetes.tf")), -1) {
				if !strings.HasPrefix(m[2], "nodeupscript-") { // the cloud's model declares these, with Script
					want[m[2]] = m[3]
				}
			}
			if len(want) == 0 {
				t.Fatal("the golden has no managed files")
			}
			all := files(t, nodes)
			for n, f := range all {
				got[n] = f.Key
				if f.Store != "testingBucket" || f.Provider != "aws.files" || f.Encryption != "AES256" || f.ACL != "" {
					t.Errorf("%s is %+v", n, f)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("files by name (-want +got):\n%s", d)
			}
			compareContents(t, dir, all)
			var g graph.Graph
			if err := g.Add(nodes...); err != nil {
				t.Error(err)
			}
		})
	}
}

func compareContents(t *testing.T, dir string, all map[string]*managedfile.File) {
	t.Helper()
	compared := 0
	paths, err := filepath.Glob(filepath.Join(dir, "data", "aws_s3_object_*_content"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "aws_s3_object_"), "_content")
		want := strings.ReplaceAll(string(goldentest.Read(t, dir, "data/"+filepath.Base(p))), "memfs://", bucket)
		if want == "" || all[name] == nil {
			continue // another file's text, or already reported
		}
		got, _ := all[name].Content.Value().Known()
		compared++
		switch {
		case strings.HasPrefix(name, "nodeupconfig-"), name == "keys.json":
			if d := cmp.Diff(maskKeys(t, want), maskKeys(t, got)); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		default:
			if d := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
	if compared < 6 {
		t.Errorf("only %d files compared", compared)
	}
}

// maskKeys reads a document and replaces everything that depends on key material, which is different
// in each run.
func maskKeys(t *testing.T, text string) any {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"CAs", "KeypairIDs"} {
		for k := range mapOf(doc[n]) {
			mapOf(doc[n])[k] = "masked"
		}
	}
	if keys := mapOf(doc["APIServerConfig"]); keys["ServiceAccountPublicKeys"] != nil {
		keys["ServiceAccountPublicKeys"] = "masked"
	}
	if keys, ok := doc["keys"].([]any); ok {
		for _, k := range keys {
			mapOf(k)["kid"], mapOf(k)["n"] = "masked", "masked"
		}
		doc["keys"] = keys[0]
	}
	return doc
}

func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }
