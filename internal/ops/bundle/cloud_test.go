package bundle_test

import (
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/spectest"
)

// TestItemsOfACloudClusterThatCanBePacked checks that everything that a cluster in a cloud fetches
// can be packed, except for the add-ons listed here.
func TestItemsOfACloudClusterThatCanBePacked(t *testing.T) {
	const aws, gce = "../../spec/complete/testdata/update_cluster/minimal-aws/in-*.yaml", "../../model/addons/testdata/gce.yaml"
	for _, c := range []struct {
		name, cloud, file string
		changes           []string
		not               []string
	}{
		{"AWS", "aws", aws, nil, []string{"registry.k8s.io/cpa/", "registry.k8s.io/provider-aws/aws-ebs-csi-driver:", "registry.k8s.io/sig-storage/", "public.ecr.aws/aws-ec2/"}},
		{"AWS without the driver of disks and the handler of terminations", "aws", aws, []string{"spec.cloudProvider.aws.ebsCSIDriver.managed=false", "spec.cloudProvider.aws.nodeTerminationHandler.enabled=false"}, []string{"registry.k8s.io/cpa/"}},
		{"GCE", "gce", gce, nil, []string{"registry.k8s.io/cpa/", "registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:", "registry.k8s.io/sig-storage/"}},
		{"GCE without the driver of disks", "gce", gce, []string{"spec.cloudProvider.gce.pdCSIDriver.enabled=false"}, []string{"registry.k8s.io/cpa/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := providers.Of(c.cloud)
			cluster, groups := spectest.Read(t, goldentest.Read(t, filepath.Dir(c.file), filepath.Base(c.file)))
			cluster = spectest.Assign(t, cluster, append(c.changes, "spec.networking.topology.dns=None"))
			done, findings := complete.Complete(complete.Input{Platform: p.ForComplete(), Cluster: cluster, Groups: groups, Channel: spectest.Stable(t), KopsVersion: "1.37.0", ConfigBase: "memfs://b/c"})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			w, err := bundle.Of(model.Input{Traits: &p.Traits, Cluster: done.Spec, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: "1.37.0"}, download.Arches())
			if err != nil {
				t.Fatal(err)
			}
			for u := range w.Files {
				if _, _, ok := bundle.FileRecipeFor(u); !ok {
					t.Errorf("there is no recipe for %s", u)
				}
			}
			reportMissingRecipes(t, w.Images, c.not)
		})
	}
}

// reportMissingRecipes reports images without a recipe, except for those known to have none.
func reportMissingRecipes(t *testing.T, images, not []string) {
	used := make([]bool, len(not))
	for _, i := range images {
		known := slices.IndexFunc(not, func(s string) bool { return strings.HasPrefix(i, s) })
		if known >= 0 {
			used[known] = true
		}
		if _, ok := bundle.ImageRecipeFor(i); ok != (known < 0) {
			t.Errorf("there is a recipe for %s: %t", i, ok)
		}
	}
	if slices.Contains(used, false) {
		t.Errorf("of %v not all is fetched: %v", not, images)
	}
}

// TestTheProgramsOfACloudAreNamedAsItsClustersDo checks that folder, program and place follow from
// the names.
func TestTheProgramsOfACloudAreNamedAsItsClustersDo(t *testing.T) {
	for _, c := range []struct{ image, file, controller, credentials string }{
		{"registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.1", "https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.31.7/linux/amd64/ecr-credential-provider-linux-amd64",
			"cloud-provider-aws-v1.36.1-amd64/bin/aws-cloud-controller-manager", "ecr-credential-provider-v1.31.7-amd64/bin/ecr-credential-provider"},
		{"registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v35.0.0", "https://artifacts.k8s.io/binaries/cloud-provider-gcp/v35.0.0/auth-provider-gcp/linux/amd64/auth-provider-gcp",
			"cloud-provider-gcp-v35.0.0-amd64/bin/cloud-controller-manager", "auth-provider-gcp-v35.0.0-amd64/bin/auth-provider-gcp"},
		{"hetznercloud/hcloud-cloud-controller-manager:v1.31.0", "", "cloud-provider-hcloud-v1.31.0-amd64/bin/hcloud-cloud-controller-manager", ""},
	} {
		t.Run(c.image, func(t *testing.T) { programsOfACloud(t, c.image, c.file, c.controller, c.credentials) })
	}
}

func programsOfACloud(t *testing.T, image, file, controller, credentials string) {
	b := newBench(t)
	files := map[string]string{}
	for _, at := range []string{controller, credentials} {
		if at == "" {
			continue
		}
		text := "#!/bin/sh\necho " + at
		b.file(filepath.Join(b.programs, at), text)
		b.file(filepath.Join(b.programs, at+".sha256"), sum(text)+"\n")
	}
	if file != "" {
		files[file] = ""
	}
	address := b.serve(b.create(bundle.Want{Images: []string{image}, Files: files}))
	for file := range files {
		if _, text := b.get(http.MethodGet, strings.Replace(file, "https://artifacts.k8s.io", address, 1)); text != "#!/bin/sh\necho "+credentials {
			t.Errorf("the file is %q", text)
		}
	}
	img := b.pull(address, image)
	config, err := img.ConfigFile()
	if err != nil || len(config.Config.Entrypoint) != 1 || path.Base(config.Config.Entrypoint[0]) != path.Base(controller) {
		t.Fatalf("the configuration is %+v, %v", config, err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	if got := unpacked(t, content)[strings.TrimPrefix(config.Config.Entrypoint[0], "/")+" 755"]; got != "#!/bin/sh\necho "+controller {
		t.Errorf("the program is %q", got)
	}
}
