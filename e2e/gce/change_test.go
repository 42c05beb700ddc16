package gce

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/test/clitest"
)

// sleep makes a test wait for operations as briefly as possible.
func sleep(ctx context.Context, _ time.Duration) error {
	time.Sleep(time.Millisecond)
	return ctx.Err()
}

// api is a client of the project that bypasses the proxy.
func (w *world) api() *gceapi.Clients {
	w.Helper()
	c, err := gceapi.Connect(w.Context(), gceapi.Config{Project: project, Region: region, Endpoint: w.server, HTTPClient: http.DefaultClient, UserAgent: "test", Sleep: sleep})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// waitDone waits for an operation that must succeed.
func (w *world) waitDone(op *compute.Operation, err error) {
	w.Helper()
	if err := w.api().Await(w.Context())(op, err); err != nil {
		w.Fatal(err)
	}
}

// apply updates the cluster, and checks that nothing is left to do.
func (w *world) apply() {
	w.Helper()
	w.Must("update", "cluster", name, "--yes")
	w.checkUnchanged()
}

// setFields sets fields of an instance group, or of the cluster if group is "".
func (w *world) setFields(group string, fields ...string) {
	w.Helper()
	args := []string{"edit", "cluster", name}
	if group != "" {
		args = []string{"edit", "instancegroup", group, "--name", name}
	}
	for _, f := range fields {
		args = append(args, "--set", f)
	}
	w.Must(args...)
}

// checkExists checks that an object of a path exists, or does not.
func (w *world) checkExists(want bool, path string) {
	w.Helper()
	if there := slices.Contains(w.cloud.Inventory(), "projects/"+project+"/"+path); there != want {
		w.Errorf("%s is there: %v, want %v", path, there, want)
	}
}

// targetSize returns the desired number of machines of a group.
func (w *world) targetSize(group, zone string) int64 {
	w.Helper()
	m, err := w.api().Compute.InstanceGroupManagers.Get(project, zone, gcename.Group(group, zone, name)).Do()
	if err != nil {
		w.Fatal(err)
	}
	return m.TargetSize
}

// TestChanges takes a cluster through the changes that a user may make, and checks that each, and nothing else, is applied.
func TestChanges(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small("--dns", "none")
	w.apply()
	nodes := "nodes-" + region + "-a"
	for _, c := range []struct {
		what     string
		do, then func()
	}{
		{"sizes are set once", func() { w.setFields(nodes, "spec.minSize=3", "spec.maxSize=5") }, func() {
			if n := w.targetSize(nodes, region+"-a"); n != 1 {
				w.Errorf("an edit of minSize gives the group %d machines, want 1", n)
			}
		}},
		{"machine type and labels", func() { w.setFields(nodes, "spec.machineType=e2-standard-2", "spec.cloudLabels.team=a") }, func() {
			r := w.Must("rolling-update", "cluster", name, "--cloudonly")
			for _, want := range []string{"spec.machineType", "e2-standard-2"} {
				if !strings.Contains(r.Out, want) {
					w.Errorf("the roll is not told of %s:\n%s", want, r.Out)
				}
			}
		}},
		{"who may come in", func() {
			w.setFields("", "spec.sshAccess=192.0.2.0/24,2001:db8::/32", "spec.kubernetesApiAccess=198.51.100.0/24")
		}, func() {
			f, err := w.api().Compute.Firewalls.Get(project, gcename.Suffixed("ssh-external-to-node", name)).Do()
			if err != nil || !slices.Equal(f.SourceRanges, []string{"192.0.2.0/24"}) || f.Disabled {
				w.Errorf("SSH is let in from %+v, %v", f, err)
			}
			f, err = w.api().Compute.Firewalls.Get(project, gcename.Suffixed("ssh-external-to-node-ipv6", name)).Do()
			if err != nil || !slices.Equal(f.SourceRanges, []string{"2001:db8::/32"}) || f.Disabled {
				w.Errorf("SSH by IPv6 is let in from %+v, %v", f, err)
			}
		}},
		{"nobody may come in", func() { w.Must("edit", "cluster", name, "--unset", "spec.sshAccess") }, func() {}},
		{"a group in several zones", func() {
			w.Must("create", "instancegroup", "more", "--name", name, "--subnet", region, "--zone", region+"-b,"+region+"-c", "--edit=false")
			w.setFields("more", "spec.minSize=3", "spec.maxSize=3")
		}, func() {
			if b, c := w.targetSize("more", region+"-b"), w.targetSize("more", region+"-c"); b != 2 || c != 1 {
				w.Errorf("the group has %d and %d machines, want 2 and 1", b, c)
			}
		}},
		{"one zone more", func() { w.setFields("more", "spec.zones="+region+"-a,"+region+"-b,"+region+"-c") }, func() {
			if a := w.targetSize("more", region+"-a"); a != 1 {
				w.Errorf("the group has %d machines in its new zone, want 1", a)
			}
			if r := w.Must("rolling-update", "cluster", name, "--cloudonly"); strings.Contains(r.Out, "spec.zones") {
				w.Errorf("a zone more has machines of others replaced:\n%s", r.Out)
			}
		}},
		{"no group", func() { w.Must("delete", "instancegroup", "more", "--name", name, "--yes") }, func() {
			for _, left := range w.cloud.Inventory() {
				if strings.Contains(left, "/more-") || strings.Contains(left, "-more-") {
					w.Errorf("a deleted group leaves %s", left)
				}
			}
		}},
		{"disks of etcd", func() {
			w.setFields("", "spec.etcdClusters[0].etcdMembers[0].volumeSize=30")
		}, func() {
			d, err := w.api().Compute.Disks.Get(project, region+"-a", gcename.EtcdDisk("a", "main", name)).Do()
			if err != nil || d.SizeGb != 30 {
				w.Errorf("the disk of etcd is %+v, %v, want 30 GB", d, err)
			}
		}},
	} {
		t.Log(c.what)
		c.do()
		w.apply()
		c.then()
	}
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}

// TestABalancerComesAndGoes: the API's load balancer is added to a cluster, changes its type, and is removed.
func TestABalancerComesAndGoes(t *testing.T) {
	for _, c := range []struct{ topology, sort string }{{"public", "Public"}, {"private", "Internal"}} {
		t.Run(c.sort, func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small("--dns", "public", "--topology", c.topology)
			w.Must("edit", "cluster", name, "--unset", "spec.api.loadBalancer", "--set", "spec.api.dns={}")
			w.apply()
			without := withoutVariableNames(w.cloud.Inventory())
			w.setFields("", "spec.api.loadBalancer.type="+c.sort)
			w.apply()
			w.checkExists(c.sort == "Public", "regions/"+region+"/forwardingRules/"+gcename.Suffixed("api", name))
			w.checkExists(true, "regions/"+region+"/forwardingRules/"+gcename.Suffixed("api-"+region, name))
			w.Must("edit", "cluster", name, "--unset", "spec.api.loadBalancer")
			if r := w.Must("update", "cluster", name, "--yes"); !strings.Contains(r.Out+r.Err, "--prune") {
				t.Errorf("it is not told how the balancer is removed:\n%s", r.Out)
			}
			w.Must("update", "cluster", name, "--yes", "--prune")
			w.checkUnchanged()
			if left := clitest.Difference(withoutVariableNames(w.cloud.Inventory()), without); len(left) > 0 {
				t.Errorf("a balancer that was removed leaves\n%s", strings.Join(left, "\n"))
			}
			w.Must("delete", "cluster", name, "--yes")
			w.checkNothingLeft(before)
		})
	}
}
