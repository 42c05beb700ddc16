package gce

import (
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/test/cloudsuite"
)

// createNetwork creates a network with a subnet that do not belong to the cluster.
func (a *account) createNetwork(w *cloudsuite.World, in string) {
	w.Helper()
	a.done(w)(a.api.Compute.Networks.Insert(in, &compute.Network{Name: "shared", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do())
	a.done(w)(a.api.Compute.Subnetworks.Insert(in, region, &compute.Subnetwork{Name: "shared-subnet", Network: "projects/" + in + "/global/networks/shared", IpCidrRange: "10.8.0.0/20"}).Do())
}

// shared are networks of the cluster's project, and of another.
func shared() []cloudsuite.Shared {
	var out []cloudsuite.Shared
	for _, c := range []struct{ title, project, options string }{
		{"of the project", project, "--network-id shared --subnets shared-subnet --dns none"},
		{"of the project, named by its subnet alone", project, "--subnets shared-subnet --dns none"},
		{"of the project, with a subnet of the cluster's", project, "--network-id shared"},
		{"of another project", host, "--network-id " + host + "/shared --subnets shared-subnet --dns none --api-loadbalancer-type internal --topology private"},
		{"of another project, public", host, "--network-id " + host + "/shared --subnets shared-subnet"},
	} {
		kept := []string{"shared"}
		if strings.Contains(c.options, "--subnets") {
			kept = append(kept, "shared-subnet")
		}
		out = append(out, cloudsuite.Shared{Title: c.title, Make: func(w *cloudsuite.World) (options, names []string) {
			of(w).createNetwork(w, c.project)
			return strings.Fields(c.options), kept
		}, Check: func(w *cloudsuite.World) {
			checkExists(w, false, "global/networks/"+gcename.Network(name))
			if len(kept) > 1 {
				checkSubnet(w, c.project+"/regions/"+region+"/subnetworks/shared-subnet")
			}
		}})
	}
	return out
}

// checkSubnet checks that the cluster's two machines are in a subnet.
func checkSubnet(w *cloudsuite.World, want string) {
	w.Helper()
	machines, err := of(w).api.Compute.Instances.List(project, region+"-a").Do()
	if err != nil || len(machines.Items) != 2 {
		w.Fatalf("%+v, %v", machines, err)
	}
	for _, i := range machines.Items {
		if at := i.NetworkInterfaces[0].Subnetwork; !strings.HasSuffix(at, want) {
			w.Errorf("the machine %s is in %s", i.Name, at)
		}
	}
}

// needRange: kops does not add a range to a subnet that it does not own, and reports which one it needs.
func needRange(w *cloudsuite.World) {
	of(w).createNetwork(w, project)
	create := []string{"create", "cluster", "--cloud", "gce", "--project", project, "--zones", region + "-a", "--network-id", "shared", "--subnets", "shared-subnet", "--networking", "gcp", "--dns", "none", "--ssh-public-key", w.Key(), name}
	r := w.Run(create...)
	_, after, told := strings.Cut(r.Err, "--add-secondary-ranges pods-a-example-com=")
	pods, _, _ := strings.Cut(after, ")")
	if r.Code == 0 || !told {
		w.Fatalf("a subnet without a range for pods: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	c := of(w).api
	s, err := c.Compute.Subnetworks.Get(project, region, "shared-subnet").Do()
	if err == nil {
		err = c.Await(w.Context())(c.Compute.Subnetworks.Patch(project, region, "shared-subnet", &compute.Subnetwork{Fingerprint: s.Fingerprint,
			SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{{RangeName: "pods-a-example-com", IpCidrRange: pods}}}).Do())
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Remember()
	w.Must(create...)
	w.Apply()
	w.Delete()
}
