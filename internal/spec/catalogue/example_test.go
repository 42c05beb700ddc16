package catalogue_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/model"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

// withExample returns this program's catalogue with one more folder, in place of the add-on whose
// settings it borrows.
func withExample(t *testing.T) *catalogue.Catalogue {
	t.Helper()
	all := fstest.MapFS{}
	for _, from := range []string{"addons", "testdata/addons"} {
		files := os.DirFS(from)
		if err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(path, "node-problem-detector/") {
				return err
			}
			text, err := fs.ReadFile(files, path)
			all[path] = &fstest.MapFile{Data: text}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := catalogue.Read(all)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// completeExample completes a cluster with the example; own gives service accounts roles of their
// own.
func completeExample(t *testing.T, own bool, version string) (complete.Input, *complete.Cluster) {
	t.Helper()
	const data = "../complete/testdata"
	in := complete.Input{Facts: spectest.Facts(t, data), Channel: spectest.Stable(t), KopsVersion: "1.37.0", Addons: withExample(t)}
	in.Cluster, in.Groups = spectest.Read(t, goldentest.Read(t, data+"/update_cluster/minimal-aws", "in-v1alpha2.yaml"))
	set := []string{"spec.nodeProblemDetector.enabled=true", "spec.kubernetesVersion=" + version}
	if own {
		set = append(set, "spec.iam.useServiceAccountExternalPermissions=true", "spec.serviceAccountIssuerDiscovery.discoveryStore=s3://public/a",
			"spec.serviceAccountIssuerDiscovery.enableAWSOIDCProvider=true")
	}
	in.Cluster = spectest.Assign(t, in.Cluster, set)
	in.Platform = platformtest.Of(in.Cluster).ForComplete()
	done, findings := complete.Complete(in)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return in, done
}

// TestAnAddonIsAFolder adds a folder, and checks everything that an add-on can have.
func TestAnAddonIsAFolder(t *testing.T) {
	in, done := completeExample(t, true, "1.36.3")

	// its defaults, and who set them
	s := done.Spec.Spec.NodeProblemDetector
	if *s.Image != "example.com/sleeper:v2" || s.CPURequest.String() != "10m" || s.MemoryLimit != nil {
		t.Errorf("settings %+v", s)
	}
	if got := done.Provenance.Cluster["spec.nodeProblemDetector.image"]; got != (complete.Origin{Rule: "sleeper", Why: "how kops runs the sleeper"}) {
		t.Errorf("the image is from %+v", got)
	}
	if _, older := completeExample(t, false, "1.35.4"); *older.Spec.Spec.NodeProblemDetector.Image != "example.com/sleeper:v1" {
		t.Errorf("image of an older cluster %s", *older.Spec.Spec.NodeProblemDetector.Image)
	}

	// its needs
	on := platformtest.Of(in.Cluster)
	found := validate.All(validate.Input{Cluster: done.Spec, Groups: done.Groups, Platform: on.ForValidate(), Strict: true, Facts: in.Facts, Addons: in.Addons})
	if len(found) != 1 || found[0].String() != `Cluster/minimal-aws.example.com: spec.nodeProblemDetector.enabled: needs cert-manager, got "true"; set spec.certManager.enabled to true` {
		t.Errorf("findings %v", found)
	}

	// its manifest, in the role of its account, and its images
	files, err := addons.Build(addons.Input{Cluster: done.Spec, Groups: done.Groups, Traits: &on.Traits, Version: "1.37.0", Region: "us-test-1", Facts: in.Facts, Addons: in.Addons})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files.Files, func(f addons.File) bool { return f.Name == "sleeper.addons.k8s.io" })
	if i < 0 {
		t.Fatalf("no such file among %d", len(files.Files))
	}
	f := files.Files[i]
	if text := string(f.Content); f.Path != "sleeper.addons.k8s.io/v1.yaml" || !strings.Contains(text, "cpu: 10m") || !strings.Contains(text, "role/sleeper.kube-system.sa.minimal-aws.example.com") {
		t.Errorf("%s:\n%s", f.Path, text)
	}
	if len(f.Images) != 2 || f.Images[0].Public != "example.com/dream:v1" || f.Images[1].Public != "example.com/sleeper:v2" {
		t.Errorf("images %v", f.Images)
	}
}

// policies returns the policies of the roles of a cluster on AWS, by the role's name.
func policies(t *testing.T, own bool) map[string]string {
	t.Helper()
	in, done := completeExample(t, own, "1.36.3")
	g := &graph.Graph{}
	if err := model.Build(platform.Model{Cluster: done.Spec, Groups: done.Groups, Facts: in.Facts, FilesBucket: "testingBucket", Addons: in.Addons,
		UserData: func(*api.InstanceGroup, ...resource.Value) (resource.Content, error) { return resource.Content{}, nil },
		SSHKeys:  []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHnmZzpHvX4fcVg1Qlmx7bXzVtyM6nAJ2XV6q1lXqX0d a"}}, g); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for n := range g.All() {
		if p, ok := n.Want.(*kinds.IAMRolePolicy); ok {
			out[p.Name] = p.Policy
		}
	}
	return out
}

func TestAnAddonMayDoOnACloudWhatItsPolicySays(t *testing.T) {
	const account, machines = "sleeper.kube-system.sa.minimal-aws.example.com", "masters.minimal-aws.example.com"
	own, shared := policies(t, true), policies(t, false)
	for where, want := range map[string]struct {
		policy string
		has    bool
	}{"the account's role": {own[account], true}, "machines beside it": {own[machines], false}, "machines without it": {shared[machines], true}} {
		for _, text := range []string{"ec2:StopInstances", ":dreams", "sqs:SendMessage"} {
			if strings.Contains(want.policy, text) != want.has {
				t.Errorf("%s: %s should be there: %v, in\n%s", where, text, want.has, want.policy)
			}
		}
	}
	if shared[account] != "" {
		t.Error("an account has a role though accounts have none")
	}
}

// TestThePageShowsTheExample keeps docs/contributing/adding-an-addon.md up to date.
func TestThePageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../../docs/contributing/adding-an-addon.md")
	if err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile("testdata/addons/sleeper/addon.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, text, _ := strings.Cut(string(head), "\n"); !strings.Contains(string(page), "```yaml\n"+text+"```") {
		t.Error("the page shows another example than its folder")
	}
}
