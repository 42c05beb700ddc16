package node

import (
	"context"
	"net/http"
	"testing"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/gce/gcetest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/gce/vtpm/vtpmtest"
	"kops.local/kops/internal/platform/onmachine"
)

// world returns the world of an instance of a project.
func world(c *gcetest.Cloud) onmachine.World {
	return onmachine.World{Env: c.Env, HTTP: http.DefaultClient, Direct: http.DefaultClient, Now: time.Now}
}

// selfMetadata returns the metadata of an instance in us-test1-a.
func selfMetadata() map[string]string {
	return map[string]string{"project/project-id": "testproject", "instance/zone": "projects/123456789012/zones/us-test1-a", "instance/name": "self"}
}

// fixedInstance is what a verifier queries: one instance, which is valid.
type fixedInstance struct{ key string }

func (k fixedInstance) Instance(context.Context, string, string) (vtpm.Instance, error) {
	return vtpm.Instance{Running: true, Cluster: "minimal.example.com", Group: "nodes", Key: k.key}, nil
}

func (fixedInstance) Member(context.Context, vtpm.Instance) (string, error) { return "nodes", nil }

func TestAMachineOfGCEProvesItself(t *testing.T) {
	root, key := vtpmtest.Start(t)
	w := world(gcetest.Start(t, selfMetadata()))
	w.Root = root
	p, err := newProver(w)
	if err != nil {
		t.Fatal(err)
	}
	token, err := p.Prove(t.Context(), []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	v := vtpm.Verifier{Project: "testproject", Region: "us-test1", Cluster: "minimal.example.com", Instances: fixedInstance{key}, Now: time.Now}
	if got, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")}); err != nil || got.NodeName != "self" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTheConfigurationOfTheCloudsController(t *testing.T) {
	text, yes := func(s string) *string { return &s }, true
	for want, c := range map[string]nodeconfig.Config{
		"[global]\n": {},
		"[global]\nnode-tags = minimal-example-com-k8s-io-role-node\nmultizone = true\n": {NodeTags: text("minimal-example-com-k8s-io-role-node"), Multizone: &yes},
		"[global]\nnode-tags = a\nnode-instance-prefix = nodes\nmultizone = true\n":      {NodeTags: text("a"), NodeInstancePrefix: text("nodes"), Multizone: &yes},
	} {
		if got := cloudConfig(&c); got != want {
			t.Errorf("got\n%s, want\n%s", got, want)
		}
	}
}
