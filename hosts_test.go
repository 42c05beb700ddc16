package kops_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/newcluster"
)

// enrolling returns a client whose platform supports machines of the user; released are the
// machines that were released.
func (b *bench) enrolling(released *[]string) *kops.Client {
	clouds := b.clouds(func(p *platform.Provider) {
		p.Hosts.Enroll = func(_ context.Context, _ *platform.Session, e platform.Enrollment) (*api.Host, error) {
			o, _, err := compat.DecodeOne[*api.Host]([]byte("apiVersion: kops.k8s.io/v1alpha2\nkind: Host\nmetadata: {name: m1, namespace: kops-system}\nspec: {publicKey: PEM}\n"), compat.Options{})
			if err == nil {
				o.Spec.InstanceGroup, o.Spec.PodCIDRs = e.Group.Name, e.PodCIDRs
				o.Annotations = map[string]string{api.AnnotationSSH: e.User + "@" + e.Address, api.AnnotationSSHKey: e.Fingerprint}
			}
			return o, err
		}
		p.Hosts.Release = func(_ context.Context, _ *platform.Session, _ *api.Cluster, h *api.Host) error {
			*released = append(*released, h.Name)
			return nil
		}
	})
	return b.client(func(c *kops.Config) { c.Clouds = clouds })
}

func TestMachinesOfTheUserAreEnrolledAndReleased(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	var released []string
	c := b.enrolling(&released)
	o := kops.EnrollOptions{Group: "nodes-here", Address: "10.0.0.7:22", User: "root"}
	if _, err := c.Hosts().Find(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	if cl, err := c.Clusters().Get(t.Context(), name); err != nil || len(cl.Hosts) > 0 {
		t.Errorf("a host that was only looked at is kept: %v", err)
	}
	for _, cidr := range []string{"fd00::/64", "fd01::/64"} { // the second run changes it
		o.PodCIDRs = []string{cidr}
		if _, err := c.Hosts().Enroll(t.Context(), name, o); err != nil {
			t.Fatal(err)
		}
		cl, err := c.Clusters().Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if len(cl.Hosts) != 1 {
			t.Fatalf("the inventory is %+v", cl.Hosts)
		}
		h := cl.Hosts[0]
		if h.Name != "m1" || h.Spec.InstanceGroup != "nodes-here" || h.Annotations[api.AnnotationSSH] != "root@10.0.0.7:22" || !slices.Equal(h.Spec.PodCIDRs, o.PodCIDRs) {
			t.Errorf("the inventory is %+v", cl.Hosts)
		}
	}
	if _, err := c.Hosts().Enroll(t.Context(), name, kops.EnrollOptions{Group: "node-here"}); err == nil || !strings.Contains(err.Error(), `did you mean "nodes-here"?`) {
		t.Errorf("a group that is not there: %v", err)
	}
	if err := c.Hosts().Release(t.Context(), name, "m2", kops.ReleaseOptions{}); !fault.Is(err, fault.Gone) || !strings.Contains(err.Error(), "it has m1") {
		t.Errorf("a host that is not there: %v", err)
	}
	for _, step := range []struct {
		kops.ReleaseOptions
		hosts, released int
	}{{kops.ReleaseOptions{}, 1, 0}, {kops.ReleaseOptions{Apply: true}, 0, 1}} {
		if err := c.Hosts().Release(t.Context(), name, "m1", step.ReleaseOptions); err != nil {
			t.Fatal(err)
		}
		if cl, err := c.Clusters().Get(t.Context(), name); err != nil || len(cl.Hosts) != step.hosts || len(released) != step.released {
			t.Errorf("%+v: %d hosts, released %v: %v", step, len(cl.Hosts), released, err)
		}
	}
	if _, err := c.Hosts().Enroll(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	if err := c.Hosts().Release(t.Context(), name, "m1", kops.ReleaseOptions{Apply: true, Lost: true}); err != nil || len(released) != 1 {
		t.Errorf("a lost machine is asked: %v, %v", released, err)
	}
}

func TestAPlatformThatMakesItsMachinesTakesNone(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	_, err := b.Hosts().Enroll(t.Context(), name, kops.EnrollOptions{Group: "nodes-here"})
	if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "the platform creates them") {
		t.Errorf("got %v", err)
	}
}

// TestAnotherMachineDoesNotTakeOverAHost: two machines with one name differ by their keys.
func TestAnotherMachineDoesNotTakeOverAHost(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	c := b.enrolling(&[]string{})
	first := kops.EnrollOptions{Group: "nodes-here", Address: "10.0.0.7:22", User: "root", HostKey: "SHA256:one"}
	another := kops.EnrollOptions{Group: "nodes-here", Address: "10.0.0.8:22", User: "root", HostKey: "SHA256:two"}
	if _, err := c.Hosts().Enroll(t.Context(), name, first); err != nil {
		t.Fatal(err)
	}
	for _, again := range []func(context.Context, string, kops.EnrollOptions) (*api.Host, error){c.Hosts().Find, c.Hosts().Enroll} {
		if _, err := again(t.Context(), name, another); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "the host m1 is another machine, at root@10.0.0.7:22") ||
			!strings.Contains(fault.Remedy(err), "option:Replace=m1") {
			t.Errorf("another machine of the same name: %v", err)
		}
	}
	another.Replace = "m2"
	if _, err := c.Hosts().Enroll(t.Context(), name, another); !fault.Is(err, fault.Conflict) {
		t.Errorf("in the place of a host of another name: %v", err)
	}
	another.Replace = "m1"
	h, err := c.Hosts().Enroll(t.Context(), name, another)
	if err != nil || h.Annotations[api.AnnotationSSHKey] != "SHA256:two" {
		t.Errorf("%+v, %v", h, err)
	}
	if cl, err := c.Clusters().Get(t.Context(), name); err != nil || len(cl.Hosts) != 1 {
		t.Errorf("the inventory is %+v, %v", cl.Hosts, err)
	}
}
