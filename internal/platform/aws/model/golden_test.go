package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/store/onstore"
	"kops.local/kops/internal/store/open/user"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/spectest"
)

// goldenFacts returns the facts that the goldens assume.
func goldenFacts(t *testing.T) *facts.Facts {
	t.Helper()
	f, err := facts.Parse(goldentest.Read(t, "../../../../testdata/facts", "goldens.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// testSSHKey is the public key of the goldens.
const testSSHKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCtWu40XQo8dczLsCq0OWV+hxm9uV3WxeH9Kgh4sMzQxNtoU1pvW0XdjpkBesRKGoolfWeCLXWxpyQb1IaiMkKoz7MdhQ/6UKjMjP66aFWWp3pwD0uj0HuJ7tq4gKHKRYGTaZIRWpzUiANBrjugVgA+Sd7E/mYwc/DMXkIyRZbvhQ=="

// read decodes and completes a cluster and its groups.
func read(t *testing.T, data []byte) platform.Model {
	t.Helper()
	in := complete.Input{Facts: goldenFacts(t), Channel: spectest.Stable(t)}
	in.Cluster, in.Groups = spectest.Read(t, data)
	p := awsspec.Platform()
	in.Platform = p.ForComplete()
	done, findings := complete.Complete(in)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return platform.Model{
		Cluster: done.Spec, Groups: done.Groups, Facts: in.Facts, SSHKeys: []string{testSSHKey},
		FilesBucket: "testingBucket", UserData: testUserData, Script: testScript(done.Spec),
	}
}

// testUserData replaces the boot script, which another package generates.
func testUserData(g *api.InstanceGroup, apiHosts ...resource.Value) (resource.Content, error) {
	if g.IsBastion() && len(g.Spec.AdditionalUserData) == 0 {
		return resource.Content{}, nil
	}
	return resource.Text(resource.Concat(append([]resource.Value{resource.Lit("#!/bin/sh\necho " + g.Name + " ")}, apiHosts...)...)), nil
}

// testScript declares the file of a boot script, with different content.
// The goldens' store is a bucket.
func testScript(c *api.Cluster) func(*api.InstanceGroup, resource.Value) (resource.Node, error) {
	buckets := onstore.Buckets(user.Backends(func(string) string { return "" }, http.DefaultClient))
	base := buckets.Location(strings.Replace(c.Spec.ConfigStore.Base, "memfs://", "s3://testingBucket/", 1))
	return func(g *api.InstanceGroup, apiHost resource.Value) (resource.Node, error) {
		content, err := testUserData(g, apiHost)
		return base.Node("nodeupscript-"+g.Name, layout.UserData(string(g.Spec.Role), g.Name), content, false), err
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
	listValue  = regexp.MustCompile(`\[(.+)\]$`)
	template   = regexp.MustCompile(`(?s)base64encode\(templatefile\((".*?"), \{.*?\}\)\)`)
)

// blocks splits a configuration into its top-level blocks, by their first lines. Managed files that
// package model declares, and outputs, which repeat the locals, are left out. Lists are sorted.
func blocks(text string) map[string]string {
	m := map[string]string{}
	// A boot script that contains the load balancer's name is a template;
	// kOps writes it as a plain file.
	text = template.ReplaceAllString(text, "filebase64($1)")
	for _, at := range blockStart.FindAllStringIndex(text, -1) {
		head, rest := text[at[0]:at[1]], text[at[1]:]
		if strings.Contains(head, `"aws_s3_object"`) && !strings.Contains(head, `"nodeupscript-`) {
			continue
		}
		lines := strings.Split(rest[:strings.Index(rest, "\n}")], "\n")
		for i, l := range lines {
			lines[i] = listValue.ReplaceAllStringFunc(l, func(s string) string {
				items := strings.Split(s[1:len(s)-1], ", ")
				slices.Sort(items)
				return "[" + strings.Join(items, ", ") + "]"
			})
		}
		body := strings.Join(lines, "\n")
		if strings.HasPrefix(head, "provider") {
			head += body
		}
		m[head] = body
	}
	return m
}

// TestGoldens compares all AWS configuration in the goldens, except the content of boot scripts and
// managed files.
func TestGoldens(t *testing.T) {
	dir := goldentest.Root()
	inputs, err := filepath.Glob(filepath.Join(dir, "update_cluster", "*", "in-v1alpha2.yaml"))
	if err != nil || len(inputs) == 0 {
		t.Skipf("SKIPPED: there are no goldens in %s; set KOPS_GOLDENS to compare with them", dir)
	}
	for _, input := range inputs {
		scenario := filepath.Dir(input)
		want, err := os.ReadFile(filepath.Join(scenario, "kubernetes.tf"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // kOps writes no Terraform for this cloud
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(want), `resource "aws_launch_template"`) {
			continue
		}
		t.Run(filepath.Base(scenario), func(t *testing.T) {
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			in := read(t, data)
			if in.Cluster.Name == "complex.example.com" {
				in.SSHKeys = nil
			}
			got := rendered(t, in)
			compareBlocks(t, got[terraform.MainFile], want)
			comparePolicies(t, got, filepath.Join(scenario, "data"))
		})
	}
}

// deviations returns the function that changes an expected block where we differ intentionally.
func deviations(head string) func(string) string {
	if strings.Contains(head, "aws_launch_template") && strings.Contains(head, "nodes-complex-example-com") {
		// The volume's deleteOnTermination is false in the spec, and stays false.
		return func(want string) string {
			at := strings.Index(want, `"/dev/xvdd"`)
			return want[:at] + strings.Replace(want[at:], "delete_on_termination = true", "delete_on_termination = false", 1)
		}
	}
	return func(want string) string { return want }
}

func compareBlocks(t *testing.T, got, want []byte) {
	t.Helper()
	have, expected := blocks(string(got)), blocks(string(want))
	for _, head := range slices.Sorted(maps.Keys(expected)) {
		body, ok := have[head]
		if !ok {
			t.Errorf("missing: %s", head)
			continue
		}
		if diff := cmp.Diff(deviations(head)(expected[head]), body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", head, diff)
		}
	}
	for _, head := range slices.Sorted(maps.Keys(have)) {
		if _, ok := expected[head]; !ok {
			t.Errorf("extra: %s", head)
		}
	}
}

func comparePolicies(t *testing.T, got map[string][]byte, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := "data/" + filepath.Base(f)
		if strings.Contains(name, "aws_s3_object") || strings.Contains(name, "user_data") {
			continue
		}
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := got[name]; !ok {
			t.Errorf("missing: %s", name)
			continue
		}
		if len(want) == 0 {
			continue // the content is not part of the golden
		}
		// kOps compares patterns as text, so a different text would make it change the rule.
		if strings.HasSuffix(name, "_event_pattern") && strings.TrimSpace(string(want)) != strings.TrimSpace(string(got[name])) {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
		if diff := cmp.Diff(normalizePolicy(parseJSON(t, want)), normalizePolicy(parseJSON(t, got[name]))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, err := os.Stat(filepath.Join(dir, strings.TrimPrefix(name, "data/"))); err != nil && name != terraform.MainFile {
			t.Errorf("extra: %s", name)
		}
	}
}

// normalizePolicy removes from a policy what is narrower here, according to docs/aws-permissions.md;
// TestDangerousGrantsNameTheirTarget checks that.
func normalizePolicy(policy any) any {
	doc, _ := policy.(map[string]any)
	statements, ok := doc["Statement"].([]any)
	if !ok {
		return policy
	}
	narrower := append(withPrefix("ec2:", "AssignPrivateIpAddresses", "AttachNetworkInterface", "CreateNetworkInterface", "CreateSnapshot", "DeleteNetworkInterface",
		"DetachNetworkInterface", "ModifyNetworkInterfaceAttribute", "UnassignPrivateIpAddresses"),
		"elasticloadbalancing:SetRulePriorities", "sqs:DeleteMessage", "sqs:ReceiveMessage", "ssm:GetParameter")
	doc["Statement"] = slices.DeleteFunc(statements, func(v any) bool {
		s := v.(map[string]any)
		if s["Action"] == "sqs:SendMessage" {
			delete(s, "Condition")
			delete(s, "Principal")
		}
		on := items(s["Resource"])
		interfaces := len(on) == 1 && strings.HasSuffix(on[0], ":network-interface/*")
		rest := slices.DeleteFunc(items(s["Action"]), func(a string) bool {
			return slices.Contains(narrower, a) || a == "ec2:CreateTags" && interfaces
		})
		s["Action"] = rest
		return len(rest) == 0
	})
	return doc
}

// parseJSON decodes a JSON document; other text is returned as a string.
func parseJSON(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Sprint(strings.TrimSpace(string(data)))
	}
	return v
}
