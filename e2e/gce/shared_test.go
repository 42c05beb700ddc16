package gce

import (
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/test/clitest"
)

// createSharedNetwork creates a network with a subnet that do not belong to the cluster.
func (w *world) createSharedNetwork(in string) {
	w.Helper()
	c := w.api()
	w.waitDone(c.Compute.Networks.Insert(in, &compute.Network{Name: "shared", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do())
	w.waitDone(c.Compute.Subnetworks.Insert(in, region, &compute.Subnetwork{Name: "shared-subnet", Network: "projects/" + in + "/global/networks/shared", IpCidrRange: "10.8.0.0/20"}).Do())
}

// TestSharedNetworkIsKept: a cluster uses an existing network of its own or another project, and does not change it.
func TestSharedNetworkIsKept(t *testing.T) {
	for _, c := range []struct{ title, project, args string }{
		{"of the project", project, "--network-id shared --subnets shared-subnet --dns none"},
		{"of the project, named by its subnet alone", project, "--subnets shared-subnet --dns none"},
		{"of the project, with a subnet of the cluster's", project, "--network-id shared"},
		{"of another project", host, "--network-id " + host + "/shared --subnets shared-subnet --dns none --api-loadbalancer-type internal --topology private"},
		{"of another project, public", host, "--network-id " + host + "/shared --subnets shared-subnet"},
	} {
		t.Run(c.title, func(t *testing.T) {
			w := newWorld(t)
			w.createSharedNetwork(c.project)
			before := w.inventory()
			w.small(strings.Fields(c.args)...)
			w.apply()
			nodes, err := w.api().Compute.Instances.List(project, region+"-a").Do()
			if err != nil || len(nodes.Items) != 2 {
				t.Fatalf("%+v, %v", nodes, err)
			}
			for _, i := range nodes.Items {
				if at := i.NetworkInterfaces[0].Subnetwork; strings.Contains(c.args, "--subnets") && !strings.HasSuffix(at, c.project+"/regions/"+region+"/subnetworks/shared-subnet") {
					t.Errorf("the machine %s is in %s", i.Name, at)
				}
			}
			w.checkExists(false, "global/networks/"+gcename.Network(name))
			w.Must("delete", "cluster", name, "--yes")
			w.checkNothingLeft(before)
		})
	}
}

// TestPodsInASharedSubnetNeedItsRange: kops does not add a range to a subnet that it does not own, and reports which one it needs.
func TestPodsInASharedSubnetNeedItsRange(t *testing.T) {
	w := newWorld(t)
	w.createSharedNetwork(project)
	before := w.cloud.Inventory()
	create := []string{"create", "cluster", "--cloud", "gce", "--project", project, "--zones", region + "-a", "--network-id", "shared", "--subnets", "shared-subnet", "--networking", "gcp", "--dns", "none", "--ssh-public-key", w.Key(), name}
	r := w.Run(create...)
	_, after, told := strings.Cut(r.Err, "--add-secondary-ranges pods-a-example-com=")
	pods, _, _ := strings.Cut(after, ")")
	if r.Code == 0 || !told {
		t.Fatalf("a subnet without a range for pods: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	c := w.api()
	s, err := c.Compute.Subnetworks.Get(project, region, "shared-subnet").Do()
	if err == nil {
		err = c.Await(t.Context())(c.Compute.Subnetworks.Patch(project, region, "shared-subnet", &compute.Subnetwork{Fingerprint: s.Fingerprint,
			SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{{RangeName: "pods-a-example-com", IpCidrRange: pods}}}).Do())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Must(create...)
	w.apply()
	w.Must("delete", "cluster", name, "--yes")
	if left := clitest.Difference(w.cloud.Inventory(), before); len(left) > 0 {
		t.Errorf("a deleted cluster leaves %v", left)
	}
}
