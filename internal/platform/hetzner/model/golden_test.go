package model

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/modeltest"
	"kops.local/kops/internal/test/spectest"
)

// testSSHKey is the public key in the goldens.
const testSSHKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCtWu40XQo8dczLsCq0OWV+hxm9uV3WxeH9Kgh4sMzQxNtoU1pvW0XdjpkBesRKGoolfWeCLXWxpyQb1IaiMkKoz7MdhQ/6UKjMjP66aFWWp3pwD0uj0HuJ7tq4gKHKRYGTaZIRWpzUiANBrjugVgA+Sd7E/mYwc/DMXkIyRZbvhQ=="

// read decodes and completes a cluster and its groups.
func read(t *testing.T, data []byte) platform.Model {
	t.Helper()
	in := complete.Input{Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"hetzner": {Region: "eu-central"}}}, Channel: spectest.Stable(t)}
	in.Cluster, in.Groups = spectest.Read(t, data)
	p := spec.Platform()
	in.Platform = p.ForComplete()
	done, findings := complete.Complete(in)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return platform.Model{Cluster: done.Spec, Groups: done.Groups, Facts: in.Facts, SSHKeys: []string{testSSHKey + "\n"}, FilesBucket: "testingBucket", UserData: modeltest.UserData}
}

// declared are the functions that are tested.
var declared = platform.Declare{Model: Build, Terraform: Terraform}

func built(t *testing.T, in platform.Model, before ...resource.Node) *graph.Graph {
	t.Helper()
	return modeltest.Built(t, declared, in, before...)
}

func rendered(t *testing.T, in platform.Model, g *graph.Graph) map[string][]byte {
	t.Helper()
	return modeltest.Rendered(t, declared, in, g)
}

// intended matches what kOps does not write: without the order, Terraform attaches servers to a network
// without a subnet; and the load balancer has an address that nodes know before it exists.
var intended = regexp.MustCompile(`(?m)^  (depends_on|ip) +=.*\n`)

// files matches managed files and their provider, which the goldens have in another bucket, and spaces
// those that align arguments.
var (
	files  = regexp.MustCompile(`(?ms)^(resource "aws_s3_object"|provider "aws"|terraform \{).*?^\}\n\n?`)
	spaces = regexp.MustCompile(` +=`)
)

// TestGolden compares everything that is Hetzner's in the golden, except the text of boot scripts.
func TestGolden(t *testing.T) {
	dir := filepath.Join(goldentest.Root(), "update_cluster", "minimal_hetzner")
	want, err := os.ReadFile(filepath.Join(dir, "kubernetes.tf"))
	if err != nil {
		t.Skipf("SKIPPED: there are no goldens in %s; set KOPS_GOLDENS to compare with them", dir)
	}
	in := read(t, goldentest.Read(t, dir, "in-v1alpha2.yaml"))
	got := rendered(t, in, built(t, in))
	main := string(got[terraform.MainFile])
	if n := len(intended.FindAllString(main, -1)); n != 5 {
		t.Errorf("%d intended differences", n)
	}
	plain := func(text string) string {
		return strings.TrimSpace(spaces.ReplaceAllString(files.ReplaceAllString(intended.ReplaceAllString(text, ""), ""), " ="))
	}
	if diff := cmp.Diff(plain(string(want)), plain(main)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, group := range []string{"master-fsn1", "nodes-fsn1"} {
		if text := string(got["data/hcloud_server_"+group+"_user_data"]); text != "#!/bin/sh\necho "+group+"\necho 10.0.255.254\n" {
			t.Errorf("the user data of %s: %q", group, text)
		}
	}
}
