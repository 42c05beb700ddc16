package emulator_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

func TestANetworkIsHeldByWhatIsInIt(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.done(c.Firewalls.Insert(project, &compute.Firewall{Name: "f", Network: "global/networks/n", Allowed: []*compute.FirewallAllowed{{IPProtocol: "TCP", Ports: []string{"443"}}}}).Do())
	c.done(c.Routers.Insert(project, region, &compute.Router{Name: "r", Network: "global/networks/n", Nats: []*compute.RouterNat{{Name: "r", NatIpAllocateOption: "AUTO_ONLY",
		SourceSubnetworkIpRangesToNat: "LIST_OF_SUBNETWORKS", Subnetworks: []*compute.RouterNatSubnetworkToNat{{Name: "regions/us-test1/subnetworks/s", SourceIpRangesToNat: []string{"ALL_IP_RANGES"}}}}}}).Do())
	c.done(c.Addresses.Insert(project, region, &compute.Address{Name: "a", AddressType: "INTERNAL", Subnetwork: "regions/us-test1/subnetworks/s"}).Do())
	held := func(err error, by string) {
		t.Helper()
		c.checkRefused(err, 400, "resourceInUseByAnotherResource", "is already being used by 'projects/testproject/"+by+"'")
	}
	_, err := c.Networks.Delete(project, "n").Do()
	held(err, "global/firewalls/f")
	c.done(c.Firewalls.Delete(project, "f").Do())
	_, err = c.Networks.Delete(project, "n").Do()
	held(err, "regions/us-test1/routers/r")
	_, err = c.Subnetworks.Delete(project, region, "s").Do()
	held(err, "regions/us-test1/addresses/a")
	c.done(c.Addresses.Delete(project, region, "a").Do())
	_, err = c.Subnetworks.Delete(project, region, "s").Do()
	held(err, "regions/us-test1/routers/r")
	c.done(c.Routers.Delete(project, region, "r").Do())
	_, err = c.Networks.Delete(project, "n").Do()
	held(err, "regions/us-test1/subnetworks/s")
	c.done(c.Subnetworks.Delete(project, region, "s").Do())
	c.done(c.Networks.Delete(project, "n").Do())
	if left := c.Inventory(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	routes, err := c.Routes.List(project).Do()
	if err != nil || len(routes.Items) > 0 {
		t.Errorf("routes that are left: %+v, %v", routes, err)
	}
	_, err = c.Networks.Delete(project, "n").Do()
	c.checkRefused(err, 404, "notFound", "The resource 'projects/testproject/global/networks/n' was not found")
}

func TestWhatIsInUseCanFailLate(t *testing.T) {
	c := play(t, emulator.Options{LateInUse: true})
	c.network()
	op, err := c.wait(c.Networks.Delete(project, "n").Do())
	if err == nil || op.Error.Errors[0].Code != "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE" || op.HttpErrorStatusCode != 400 || !strings.Contains(op.Error.Errors[0].Message, "is already being used by") {
		t.Errorf("got %+v, %v", op, err)
	}
	if _, err := c.Networks.Get(project, "n").Do(); err != nil {
		t.Errorf("the network is gone: %v", err)
	}
}

func TestASubnetworkChangesByWhatWasRead(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	s, err := c.Subnetworks.Get(project, region, "s").Do()
	if err != nil || s.GatewayAddress != "10.0.16.1" || s.Purpose != "PRIVATE" || s.StackType != "IPV4_ONLY" || s.Fingerprint == "" || s.Network != "https://www.googleapis.com/compute/v1/projects/testproject/global/networks/n" {
		t.Fatalf("got %+v, %v", s, err)
	}
	more := append(slices.Clone(s.SecondaryIpRanges), &compute.SubnetworkSecondaryRange{RangeName: "services", IpCidrRange: "10.1.0.0/16"})
	c.done(c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{SecondaryIpRanges: more, Fingerprint: s.Fingerprint}).Do())
	_, err = c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{SecondaryIpRanges: more[:1], Fingerprint: s.Fingerprint}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "fingerprint")
	_, err = c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{SecondaryIpRanges: more[:1]}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "fingerprint")
	now, err := c.Subnetworks.Get(project, region, "s").Do()
	if err != nil || len(now.SecondaryIpRanges) != 2 || now.Fingerprint == s.Fingerprint || now.IpCidrRange != s.IpCidrRange {
		t.Errorf("got %+v, %v", now, err)
	}
	_, err = c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{IpCidrRange: "10.0.32.0/20", Fingerprint: now.Fingerprint}).Do()
	c.checkRefused(err, 400, "invalid", "The field cannot be changed")
	op, err := c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{StackType: "IPV4_IPV6", Ipv6AccessType: "EXTERNAL", Fingerprint: now.Fingerprint}).Do()
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{PrivateIpGoogleAccess: true, Fingerprint: now.Fingerprint}).Do()
	c.checkRefused(err, 400, "resourceNotReady", "is not ready")
	c.done(op, nil)
	if now, err = c.Subnetworks.Get(project, region, "s").Do(); err != nil || now.ExternalIpv6Prefix == "" || now.StackType != "IPV4_IPV6" {
		t.Errorf("got %+v, %v", now, err)
	}
	c.done(c.Subnetworks.ExpandIpCidrRange(project, region, "s", &compute.SubnetworksExpandIpCidrRangeRequest{IpCidrRange: "10.0.0.0/18"}).Do())
	if now, err = c.Subnetworks.Get(project, region, "s").Do(); err != nil || now.IpCidrRange != "10.0.0.0/18" {
		t.Errorf("got %+v, %v", now, err)
	}
}

func TestASecondaryRangeIsHeldByTheInstancesInIt(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.instance("i")
	s, err := c.Subnetworks.Get(project, region, "s").Do()
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Subnetworks.Patch(project, region, "s", &compute.Subnetwork{Fingerprint: s.Fingerprint, SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{}, ForceSendFields: []string{"SecondaryIpRanges"}}).Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "zones/us-test1-a/instances/i")
}

func TestAFirewallIsReplacedWhole(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.done(c.Firewalls.Insert(project, &compute.Firewall{Name: "f", Network: "global/networks/n", SourceTags: []string{"a"}, TargetTags: []string{"b"}, Description: "x",
		Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp", Ports: []string{"443", "10250"}}, {IPProtocol: "esp"}}}).Do())
	f, err := c.Firewalls.Get(project, "f").Do()
	if err != nil || f.Direction != "INGRESS" || f.Priority != 1000 || f.LogConfig == nil || len(f.SourceRanges) > 0 {
		t.Fatalf("got %+v, %v", f, err)
	}
	f.Allowed, f.Description = f.Allowed[:1], ""
	c.done(c.Firewalls.Update(project, "f", f).Do()) // with its ID and everything else that was read
	now, err := c.Firewalls.Get(project, "f").Do()
	if err != nil || len(now.Allowed) != 1 || now.Description != "" || now.Id != f.Id || now.SourceTags[0] != "a" {
		t.Errorf("got %+v, %v", now, err)
	}
	c.done(c.Firewalls.Patch(project, "f", &compute.Firewall{Name: "f", Disabled: true}).Do())
	if now, err = c.Firewalls.Get(project, "f").Do(); err != nil || !now.Disabled || len(now.TargetTags) != 1 {
		t.Errorf("got %+v, %v", now, err)
	}
	f.Network = "global/networks/other"
	_, err = c.Firewalls.Update(project, "f", f).Do()
	c.checkRefused(err, 404, "notFound", "global/networks/other")
}

func TestARouterIsChangedByAPatch(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.done(c.Routers.Insert(project, region, &compute.Router{Name: "r", Network: "global/networks/n"}).Do())
	nat := &compute.RouterNat{Name: "nat", NatIpAllocateOption: "AUTO_ONLY", SourceSubnetworkIpRangesToNat: "LIST_OF_SUBNETWORKS",
		Subnetworks: []*compute.RouterNatSubnetworkToNat{{Name: "regions/us-test1/subnetworks/s", SourceIpRangesToNat: []string{"ALL_IP_RANGES"}}}}
	c.done(c.Routers.Patch(project, region, "r", &compute.Router{Nats: []*compute.RouterNat{nat}}).Do())
	r, err := c.Routers.Get(project, region, "r").Do()
	if err != nil || r.Nats[0].Type != "PUBLIC" || !strings.HasPrefix(r.Nats[0].Subnetworks[0].Name, "https://www.googleapis.com/") {
		t.Fatalf("got %+v, %v", r, err)
	}
	_, err = c.Routers.Insert(project, region, &compute.Router{Name: "q", Network: "global/networks/n", Nats: []*compute.RouterNat{nat}}).Do()
	c.checkRefused(err, 400, "invalid", "already used by NAT 'nat' of router 'r'")
	c.done(c.Routers.Patch(project, region, "r", &compute.Router{NullFields: []string{"Nats"}}).Do())
	if r, err = c.Routers.Get(project, region, "r").Do(); err != nil || len(r.Nats) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRoutesAreThereAndGoWithTheirInstance(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.instance("i")
	c.done(c.Routes.Insert(project, &compute.Route{Name: "to-i", Network: "global/networks/n", DestRange: "10.200.0.0/24", Priority: 1000, NextHopInstance: "zones/us-test1-a/instances/i"}).Do())
	list, err := c.Routes.List(project).Do()
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("got %d, want that of the network, that of the subnetwork and one of its own: %v", len(list.Items), err)
	}
	c.done(c.Instances.Delete(project, zone, "i").Do())
	r, err := c.Routes.Get(project, "to-i").Do()
	if err != nil || len(r.Warnings) != 1 || r.Warnings[0].Code != "NEXT_HOP_INSTANCE_NOT_FOUND" {
		t.Errorf("got %+v, %v", r, err)
	}
	_, err = c.Networks.Delete(project, "n").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "")
	c.done(c.Routes.Delete(project, "to-i").Do())
}

func TestANetworkInAutoModeHasSubnetworks(t *testing.T) {
	c := play(t, emulator.Options{Regions: map[string][]string{"us-test1": {"us-test1-a"}, "us-test2": {"us-test2-a"}}})
	c.done(c.Networks.Insert(project, &compute.Network{Name: "default", AutoCreateSubnetworks: true}).Do())
	n, err := c.Networks.Get(project, "default").Do()
	if err != nil || len(n.Subnetworks) != 2 {
		t.Fatalf("got %+v, %v", n, err)
	}
	s, err := c.Subnetworks.Get(project, "us-test2", "default").Do()
	if err != nil || s.IpCidrRange != "10.128.16.0/20" {
		t.Errorf("got %+v, %v", s, err)
	}
	c.done(c.Networks.Delete(project, "default").Do())
	if _, err := c.Subnetworks.Get(project, "us-test2", "default").Do(); !hasStatus(err, http.StatusNotFound) {
		t.Errorf("the subnetworks stay: %v", err)
	}
}

// TestNetworksRefuse is a table of what cannot be created.
func TestNetworksRefuse(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	subnet := func(s compute.Subnetwork) func() error {
		return func() error { _, err := c.Subnetworks.Insert(project, region, &s).Do(); return err }
	}
	firewall := func(f compute.Firewall) func() error {
		return func() error { f.Name = "f"; _, err := c.Firewalls.Insert(project, &f).Do(); return err }
	}
	router := func(nat compute.RouterNat) func() error {
		return func() error {
			_, err := c.Routers.Insert(project, region, &compute.Router{Name: "r", Network: "global/networks/n", Nats: []*compute.RouterNat{&nat}}).Do()
			return err
		}
	}
	tcp := []*compute.FirewallAllowed{{IPProtocol: "tcp"}}
	const n = "global/networks/n"
	for _, r := range []struct {
		name          string
		do            func() error
		status        int
		reason, words string
	}{
		{"a legacy network", func() error { _, err := c.Networks.Insert(project, &compute.Network{Name: "l"}).Do(); return err }, 400, "invalid", "Legacy"},
		{"a name in capitals", func() error {
			_, err := c.Networks.Insert(project, &compute.Network{Name: "N", AutoCreateSubnetworks: true}).Do()
			return err
		}, 400, "invalid", "Must be a match of regex"},
		{"another project", func() error { _, err := c.Networks.List("other-project").Do(); return err }, 404, "notFound", "projects/other-project"},
		{"another region", func() error { _, err := c.Subnetworks.List(project, "us-test9").Do(); return err }, 400, "invalid", "Unknown region"},
		{"another zone", func() error { _, err := c.Disks.List(project, "us-test1-z").Do(); return err }, 400, "invalid", "Unknown zone"},
		{"no network", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24"}), 400, "required", "resource.network"},
		{"a network that is not", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24", Network: "global/networks/x"}), 404, "notFound", "projects/testproject/global/networks/x"},
		{"a bare name of a network", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24", Network: "n"}), 400, "invalid", "The URL is malformed"},
		{"the URL of another kind", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24", Network: "regions/us-test1/subnetworks/s"}), 400, "invalid", "The URL is malformed"},
		{"host bits", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.1/24", Network: n}), 400, "invalid", "resource.ipCidrRange"},
		{"a small range", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/30", Network: n}), 400, "invalid", "/29"},
		{"a range that overlaps", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.0.24.0/24", Network: n}), 400, "invalid", "conflicts with existing subnetwork 's' in region 'us-test1'"},
		{"a range that overlaps a secondary one", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.5.0.0/24", Network: n}), 400, "invalid", "conflicts with existing subnetwork 's'"},
		{"a secondary range that overlaps its own", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24", Network: n, SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{{RangeName: "p", IpCidrRange: "10.9.0.0/16"}}}), 400, "invalid", "another range of the subnetwork"},
		{"IPv6 without access", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24", Network: n, StackType: "IPV4_IPV6"}), 400, "invalid", "ipv6AccessType"},
		{"an unknown stack", subnet(compute.Subnetwork{Name: "x", IpCidrRange: "10.9.0.0/24", Network: n, StackType: "IPV5"}), 400, "invalid", "Must be one of"},
		{"neither allowed nor denied", firewall(compute.Firewall{Network: n}), 400, "required", "resource.allowed"},
		{"mixed families", firewall(compute.Firewall{Network: n, Allowed: tcp, SourceRanges: []string{"0.0.0.0/0", "::/0"}}), 400, "invalid", "cannot be mixed"},
		{"a range of no form", firewall(compute.Firewall{Network: n, Allowed: tcp, SourceRanges: []string{"10.0.0.1/8"}}), 400, "invalid", "sourceRanges[0]"},
		{"ICMP over IPv6", firewall(compute.Firewall{Network: n, Allowed: []*compute.FirewallAllowed{{IPProtocol: "icmp"}}, SourceRanges: []string{"::/0"}}), 400, "invalid", "58"},
		{"ports of a protocol that has none", firewall(compute.Firewall{Network: n, Allowed: []*compute.FirewallAllowed{{IPProtocol: "esp", Ports: []string{"1"}}}}), 400, "invalid", "no ports"},
		{"a protocol that is not", firewall(compute.Firewall{Network: n, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tpc"}}}), 400, "invalid", "IPProtocol"},
		{"a tag of no form", firewall(compute.Firewall{Network: n, Allowed: tcp, TargetTags: []string{"a.b"}}), 400, "invalid", "targetTags[0]"},
		{"a NAT without subnetworks", router(compute.RouterNat{Name: "x", NatIpAllocateOption: "AUTO_ONLY", SourceSubnetworkIpRangesToNat: "LIST_OF_SUBNETWORKS"}), 400, "invalid", "LIST_OF_SUBNETWORKS"},
		{"a NAT of unknown addresses", router(compute.RouterNat{Name: "x", NatIpAllocateOption: "MANUAL_ONLY", SourceSubnetworkIpRangesToNat: "ALL_SUBNETWORKS_ALL_IP_RANGES"}), 400, "invalid", "natIps"},
		{"a route without an end", func() error {
			_, err := c.Routes.Insert(project, &compute.Route{Name: "x", Network: n, DestRange: "10.0.0.0/8", Priority: 1}).Do()
			return err
		}, 400, "invalid", "next hop"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := *c
			c.T = t
			c.checkRefused(r.do(), r.status, r.reason, r.words)
		})
	}
	if got := c.Inventory(); len(got) != 2 {
		t.Errorf("what was refused is there: %s", got)
	}
}

func TestANetworkOfAnotherProjectIsUsed(t *testing.T) {
	const host = "hostproject"
	c := play(t, emulator.Options{Others: []string{host}})
	wait := func(op *compute.Operation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		c.clock.Sleep(t.Context(), time.Minute)
	}
	wait(c.Networks.Insert(host, empty("shared")).Do())
	wait(c.Subnetworks.Insert(host, region, &compute.Subnetwork{Name: "shared", Network: "global/networks/shared", IpCidrRange: "10.9.0.0/24"}).Do())
	i := machine("i")
	i.NetworkInterfaces = []*compute.NetworkInterface{{Network: "projects/hostproject/global/networks/shared", Subnetwork: "https://compute.googleapis.com/compute/v1/projects/hostproject/regions/us-test1/subnetworks/shared"}}
	c.done(c.Instances.Insert(project, zone, i).Do())
	got, err := c.Instances.Get(project, zone, "i").Do()
	if err != nil || got.NetworkInterfaces[0].NetworkIP != "10.9.0.2" || got.NetworkInterfaces[0].Subnetwork != "https://www.googleapis.com/compute/v1/projects/hostproject/regions/us-test1/subnetworks/shared" {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = c.Subnetworks.Delete(host, region, "shared").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "projects/testproject/zones/us-test1-a/instances/i")
	_, err = c.Networks.Get(project, "shared").Do()
	c.checkRefused(err, 404, "notFound", "")
}

func TestInstancesHaveIPv6WhereTheirSubnetworkDoes(t *testing.T) {
	for _, access := range []string{"EXTERNAL", "INTERNAL"} {
		c := play(t, emulator.Options{})
		subnet := &compute.Subnetwork{Name: "s", Network: "global/networks/n", IpCidrRange: "10.0.16.0/20", StackType: "IPV4_IPV6", Ipv6AccessType: access}
		c.done(c.Networks.Insert(project, empty("n")).Do())
		if access == "INTERNAL" {
			_, err := c.Subnetworks.Insert(project, region, subnet).Do()
			c.checkRefused(err, 400, "invalid", "enableUlaInternalIpv6")
			c.done(c.Networks.Patch(project, "n", &compute.Network{EnableUlaInternalIpv6: true}).Do())
		}
		c.done(c.Subnetworks.Insert(project, region, subnet).Do())
		i := machine("i")
		i.NetworkInterfaces[0].AliasIpRanges, i.NetworkInterfaces[0].StackType = nil, "IPV4_IPV6"
		c.done(c.Instances.Insert(project, zone, i).Do())
		got, err := c.Instances.Get(project, zone, "i").Do()
		if err != nil {
			t.Fatal(err)
		}
		nic := got.NetworkInterfaces[0]
		if external := len(nic.Ipv6AccessConfigs) == 1 && nic.Ipv6AccessConfigs[0].ExternalIpv6PrefixLength == 96 && strings.HasPrefix(nic.Ipv6AccessConfigs[0].ExternalIpv6, "2600:1900:"); nic.Ipv6AccessType != access || external != (access == "EXTERNAL") || strings.HasPrefix(nic.Ipv6Address, "fd20:") == external {
			t.Errorf("%s: got %+v", access, nic)
		}
		if _, text := getMetadata(t, c.Metadata(project, zone, "i"), "/computeMetadata/v1/instance/network-interfaces/0/ipv6s"); !strings.Contains(text, ":") {
			t.Errorf("%s: the instance is told %q", access, text)
		}
	}
}
