package gce

import (
	"strings"
	"testing"

	"kops.local/kops/internal/test/clitest"
)

func TestLifeOfACluster(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small()
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "Must specify --yes to apply changes") {
		t.Errorf("the preview does not say how to go on:\n%s", r.Out)
	}
	for _, left := range clitest.Difference(w.inventory(), before) {
		if strings.HasPrefix(left, "projects/") {
			t.Errorf("a preview made %s", left)
		}
	}
	w.Must("update", "cluster", name, "--yes")
	w.checkUnchanged()
	r := w.Must("delete", "cluster", name)
	for _, want := range []string{"google_compute_network ", "gs://state-store/a.example.com/config", "Must specify --yes to delete cluster"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the preview of the deletion lacks %q:\n%s", want, r.Out)
		}
	}
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}

// TestTopologies takes clusters of other topologies through their lives.
func TestTopologies(t *testing.T) {
	for _, c := range []struct{ name, args string }{
		{"no names", "--dns none"},
		{"a public balancer", "--api-loadbalancer-type public"},
		{"an internal balancer, private", "--api-loadbalancer-type internal --topology private --bastion"},
		{"addresses of the network for pods", "--networking gcp"},
		{"kubenet", "--networking kubenet"},
		{"Cilium with an etcd of its own", "--networking cilium-etcd --dns none"},
		{"three control planes", "--zones us-test1-a,us-test1-b,us-test1-c --control-plane-count 3 --node-count 4"},
		{"a service account of the user's", "--gce-service-account default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small(strings.Fields(c.args)...)
			w.Must("update", "cluster", name, "--yes")
			w.checkUnchanged()
			w.Must("delete", "cluster", name, "--yes")
			w.checkNothingLeft(before)
		})
	}
}

// TestNeighbours: a deletion does not affect clusters whose names only have the same beginning or end.
func TestNeighbours(t *testing.T) {
	w := newWorld(t)
	var others []string
	for _, other := range []string{"a-" + name, "b." + name, name + ".org", "a.example.co"} {
		w.Must("create", "cluster", "--cloud", "gce", "--project", project, "--zones", region+"-a", "--networking", "calico", "--dns", "none", "--ssh-public-key", w.Key(), other)
		w.Must("update", "cluster", other, "--yes")
	}
	others = w.inventory()
	w.small("--dns", "none")
	w.Must("update", "cluster", name, "--yes")
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(others)
}

func TestThrottled(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small()
	w.Proxy.Throttle(10, 1)
	w.Must("update", "cluster", name, "--yes")
	w.Must("delete", "cluster", name, "--yes")
	w.Proxy.Throttle(0, 1)
	w.checkNothingLeft(before)
}

// TestRefusalsHaveARemedy: a missing permission, quota or zone is named, and nothing is lost.
func TestRefusalsHaveARemedy(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small()
	w.cloud.Deny("compute.firewalls.create")
	if r := w.Run("update", "cluster", name, "--yes"); r.Code == 0 || !strings.Contains(r.Err, "compute.firewalls.create") {
		t.Errorf("a right that is missing: exit %d\n%s", r.Code, r.Err)
	}
	w.cloud.Deny()
	w.Must("update", "cluster", name, "--yes")
	w.checkUnchanged()
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}
