package model

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/platform"
	gcespec "kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/modeltest"
	"kops.local/kops/internal/test/spectest"
)

// goldenFacts returns the facts that the goldens assume.
func goldenFacts() *facts.Facts {
	return &facts.Facts{Clouds: map[string]*facts.Cloud{"gce": {
		Region: "us-test1", Zones: []string{"us-test1-a", "us-test1-b", "us-test1-c"},
		DNSZones: []facts.DNSZone{{Name: "example.com", ID: "1"}},
	}}}
}

// testSSHKey is the public key in the goldens.
const testSSHKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCtWu40XQo8dczLsCq0OWV+hxm9uV3WxeH9Kgh4sMzQxNtoU1pvW0XdjpkBesRKGoolfWeCLXWxpyQb1IaiMkKoz7MdhQ/6UKjMjP66aFWWp3pwD0uj0HuJ7tq4gKHKRYGTaZIRWpzUiANBrjugVgA+Sd7E/mYwc/DMXkIyRZbvhQ=="

// read decodes and completes a cluster and its groups.
func read(t *testing.T, data []byte) platform.Model {
	t.Helper()
	in := complete.Input{Facts: goldenFacts(), Channel: spectest.Stable(t)}
	in.Cluster, in.Groups = spectest.Read(t, data)
	p := gcespec.Platform()
	in.Platform = p.ForComplete()
	done, findings := complete.Complete(in)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return platform.Model{
		Cluster: done.Spec, Groups: done.Groups, Facts: in.Facts, SSHKeys: []string{testSSHKey + "\n"},
		FilesBucket: "testingBucket", UserData: modeltest.UserData,
	}
}

// rendered returns the Terraform files of a cluster.
func rendered(t *testing.T, in platform.Model) map[string][]byte {
	t.Helper()
	g := &graph.Graph{}
	if err := Build(in, g); err != nil {
		t.Fatal(err)
	}
	doc, err := Terraform(in, g)
	if err != nil {
		t.Fatal(err)
	}
	files, err := terraform.Render(doc)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	blockStart = regexp.MustCompile(`(?m)^(?:resource|data|provider|locals|terraform)\b.*\{$`)
	template   = regexp.MustCompile(`(?s)templatefile\((".*?"), \{.*?\}\)`)
)

// blocks splits a configuration into its top-level blocks, by first line. It leaves out outputs,
// which repeat the locals, and what managed files need, because the goldens use another bucket.
func blocks(text string) map[string]string {
	m := map[string]string{}
	// A boot script that contains the balancer's address is a template; kOps writes a plain file.
	text = template.ReplaceAllString(text, "file($1)")
	for _, at := range blockStart.FindAllStringIndex(text, -1) {
		head, rest := text[at[0]:at[1]], text[at[1]:]
		if strings.Contains(head, `_object"`) || strings.HasPrefix(head, `provider "aws"`) || head == "terraform {" {
			continue
		}
		m[head] = rest[:strings.Index(rest, "\n}")]
	}
	return m
}

// TestGoldens compares everything Google-specific in the goldens, except the text of boot scripts.
func TestGoldens(t *testing.T) {
	dir := goldentest.Root()
	inputs, err := filepath.Glob(filepath.Join(dir, "update_cluster", "*", "in-v1alpha2.yaml"))
	if err != nil || len(inputs) == 0 {
		t.Skipf("SKIPPED: there are no goldens in %s; set KOPS_GOLDENS to compare with them", dir)
	}
	for _, input := range inputs {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(input), "kubernetes.tf"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a cloud for which kOps writes no Terraform
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(want), `resource "google_compute_instance_template"`) {
			continue
		}
		t.Run(filepath.Base(filepath.Dir(input)), func(t *testing.T) {
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			got := rendered(t, read(t, data))
			schematest.Validate(t, got)
			compareBlocks(t, got[terraform.MainFile], want)
			compareNames(t, got, filepath.Join(filepath.Dir(input), "data"))
		})
	}
}

// The project role is granted without revoking it from others, and a taint does not become a label,
// because no label can contain one.
var (
	binding = regexp.MustCompile(`resource "google_project_iam_binding" (.*)\n  members = \[format\("serviceAccount:%s", (.*)\)\]\n`)
	taints  = regexp.MustCompile(`\n *"k8s.io/cluster-autoscaler/node-template/taint/.*`)
)

// withIntended applies the intended differences to a golden.
func withIntended(want string) string {
	want = binding.ReplaceAllString(want, "resource \"google_project_iam_member\" $1\n  member  = \"serviceAccount:$${$2}\"\n")
	return taints.ReplaceAllString(want, "")
}

// spaces matches the spaces that align arguments.
var spaces = regexp.MustCompile(` +=`)

func compareBlocks(t *testing.T, got, want []byte) {
	t.Helper()
	have, expected := blocks(string(got)), blocks(withIntended(string(want)))
	for _, head := range slices.Sorted(maps.Keys(expected)) {
		body, ok := have[head]
		if !ok {
			t.Errorf("missing: %s", head)
			continue
		}
		if diff := cmp.Diff(spaces.ReplaceAllString(expected[head], " ="), spaces.ReplaceAllString(body, " =")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", head, diff)
		}
	}
	for _, head := range slices.Sorted(maps.Keys(have)) {
		if _, ok := expected[head]; !ok {
			t.Errorf("extra: %s", head)
		}
	}
}

// compareNames compares the names of the files that the configuration reads.
func compareNames(t *testing.T, got map[string][]byte, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "google_*"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		want = append(want, "data/"+filepath.Base(f))
	}
	have := slices.DeleteFunc(slices.Sorted(maps.Keys(got)), func(name string) bool { return name == terraform.MainFile })
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
