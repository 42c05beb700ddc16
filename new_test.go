package kops_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

func TestAVersionThatNoUpdateWouldTakeIsRefusedOfANewCluster(t *testing.T) {
	b := newBench(t)
	ask := func(c *kops.Client, version string, sets ...string) error {
		r := kops.NewClusterRequest{Options: newcluster.Options{
			ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"}, KubernetesVersion: version, Sets: sets}}
		_, err := c.NewCluster(t.Context(), r)
		return err
	}
	expectRefusal(t, ask(b.Client, "1.31.0"), "option:KubernetesVersion: is no longer supported", "1.31.0")
	expectRefusal(t, ask(b.Client, "", "spec.kubernetesVersion=1.25.0"), "option:KubernetesVersion: is no longer supported", "1.25.0")
	expectRefusal(t, ask(b.Client, "1.99.0"), "option:KubernetesVersion: is not yet supported", "KOPS_RUN_TOO_NEW_VERSION")
	if err := ask(b.client(func(c *kops.Config) { c.RunTooNew = true }), "1.99.0"); err != nil {
		t.Errorf("with RunTooNew: %v", err)
	}
}

func TestATargetMissingInTheCloudIsRefusedForANewCluster(t *testing.T) {
	b := newBench(t)
	_, err := b.NewCluster(t.Context(), kops.NewClusterRequest{Target: "terraform", Options: newcluster.Options{
		ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"}}})
	expectTexts(t, err, "cannot be written as Terraform; leave out option:Target terraform")
}

func TestAClusterWhoseFilesNobodyHasIsRefusedBeforeItIsStored(t *testing.T) {
	b := newBench(t)
	b.cfg.Clouds = b.clouds(func(p *platform.Provider) {
		p.Lookup.Facts = func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
			return &facts.Facts{Clouds: map[string]*facts.Cloud{fakecloud.Name: {Architecture: "amd64", Bundle: "/bundle"}}}, nil
		}
	})
	b.Client = b.client(func(*kops.Config) {})
	c, err := b.NewCluster(t.Context(), kops.NewClusterRequest{Options: newcluster.Options{
		ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"}, KubernetesVersion: "1.36.99"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Check(t.Context(), c, nil)
	expectTexts(t, err, "the bundle /bundle lacks files that machines fetch: https://", "/v1.36.99/")
}

func TestAnAddonWhoseImagesTheBundleLacksIsRefused(t *testing.T) {
	b := newBench(t)
	b.cfg.Clouds = b.clouds(func(p *platform.Provider) {
		p.Lookup.Facts = func(context.Context, *platform.Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) {
			return &facts.Facts{FileHashes: map[string]string{"*": strings.Repeat("0", 64)}, ImageDigests: digests("kops.internal/*", "registry.k8s.io/coredns/*", "registry.k8s.io/cpa/*", "quay.io/jetstack/cert-manager-*"),
				Clouds: map[string]*facts.Cloud{fakecloud.Name: {Architecture: "amd64", Bundle: "/bundle"}}}, nil
		}
	})
	b.Client = b.client(func(*kops.Config) {})
	const lacks = "the bundle /bundle lacks images of "
	for _, tt := range []struct{ network, set, want, remedy string }{
		{"kubenet", "spec.certManager.enabled=true", "", ""},
		{"kubenet", "spec.metricsServer.enabled=true", lacks + "add-ons: registry.k8s.io/metrics-server/metrics-server:v", " --addons metrics-server"},
		{"kubenet", "spec.kubeDNS.nodeLocalDNS.enabled=true", lacks + "add-ons: registry.k8s.io/dns/k8s-dns-node-cache:", "kops bundle create --name " + name}, // it cannot be built
		{"kube-router", "spec.certManager.enabled=true", lacks + "the pod network: docker.io/cloudnativelabs/kube-router:v", " --networking kube-router"},
		{"calico", "spec.certManager.enabled=true", lacks + "the pod network: ", "kops bundle create --name " + name}, // it cannot be built
	} {
		c, err := b.NewCluster(t.Context(), kops.NewClusterRequest{Options: newcluster.Options{
			ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"}, Networking: tt.network, Sets: []string{tt.set}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Check(t.Context(), c, nil)
		if tt.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		expectTexts(t, err, tt.want)
		if r := fault.Remedy(err); !strings.HasSuffix(r, tt.remedy) {
			t.Errorf("%s: remedy %q", tt.network, r)
		}
	}
}

// digests returns a digest for the images of each pattern.
func digests(patterns ...string) map[string]string {
	out := map[string]string{}
	for _, p := range patterns {
		out[p] = "sha256:" + strings.Repeat("0", 64)
	}
	return out
}

// A folder can be accessed without a network.
func TestFilesInAFolderElsewhereAreWrittenOffline(t *testing.T) {
	b := newBench(t)
	folder := t.TempDir()
	b.describe(func(o *newcluster.Options) { o.ConfigBase = "file://" + folder })
	c := b.client(func(c *kops.Config) { c.Offline = true })
	o := kops.UpdateOptions{Apply: true, Facts: factsOf(t, "fileHashes: {'*': '"+strings.Repeat("0", 64)+"'}")}
	if _, err := c.Update(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cluster-completed.spec", "pki/private/kubernetes-ca/keyset.yaml"} {
		if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
			t.Error(err)
		}
	}
	if u, err := c.Update(t.Context(), name, o); err != nil || !u.Plan.Empty() {
		t.Errorf("a second update does something: %v", err)
	}
}

// A preview from facts includes the files in other stores that an apply includes.
func TestAPreviewFromFactsIsWhatIsApplied(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	b.set("", "spec.etcdClusters[0].backups.backupStore=memory://elsewhere")
	o := kops.UpdateOptions{Facts: factsOf(t, "fileHashes: {'*': '"+strings.Repeat("0", 64)+"'}")}
	b.apply(o)
	c := b.client(func(c *kops.Config) { c.Offline = true })
	u, err := c.Update(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range inside[*plan.Plan](u.Plan).Steps {
		if s.Op != plan.Keep {
			t.Errorf("there is still to %s %s", s.Op, s.Address)
		}
	}
}

func TestAClusterWithoutANameIsRejected(t *testing.T) {
	b := newBench(t)
	_, err := b.Clusters().Create(t.Context(), []api.Object{&api.Cluster{}})
	expectTexts(t, err, "Cluster: metadata.name: is missing; specify the name of the cluster")
}

// Without access to its keys, a cluster that has some does not get others.
func TestKeysThatCannotBeReachedAreNotReplaced(t *testing.T) {
	b := newBench(t)
	far := store.Memories()
	far.Schemes = []string{"far"}
	use := func(offline bool) *kops.Client {
		return b.client(func(c *kops.Config) { c.Store.Backends, c.Offline = append(c.Store.Backends, far), offline })
	}
	b.Client = use(false)
	b.describe(func(o *newcluster.Options) { o.ConfigBase = "far://bucket/files" })
	o := kops.UpdateOptions{Facts: factsOf(t, "fileHashes: {'*': '"+strings.Repeat("0", 64)+"'}")}
	if _, err := use(true).Update(t.Context(), name, o); err != nil {
		t.Errorf("a new cluster: %v", err)
	}
	b.apply(o)
	_, err := use(true).Update(t.Context(), name, o)
	expectTexts(t, err, "cluster a.example.com has its keys in far://bucket/files/pki, which is not read with option:Facts because the state store is local; new keys would replace them")
	if u := b.preview(o); !u.Plan.Empty() {
		t.Error("with access, there is something left to do")
	}
}
