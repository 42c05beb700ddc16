package model_test

import (
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
)

// addressAt returns a reference to an address, as a load balancer has one in a subnet.
func addressAt(subnet string) resource.Value {
	return resource.Out(resource.Address{Kind: "google_compute_address", Name: "api-" + subnet}, "address")
}

// resolve returns a script in which each reference is replaced with an address: the nth subnet's
// address ends in n.
func resolve(t *testing.T, c resource.Content) string {
	t.Helper()
	text, known := c.Value().Resolve(func(a resource.Address, _ string) (string, bool) { return "10.0.0." + a.Name[len(a.Name)-1:], true }).Known()
	if !known {
		t.Fatal("still not known")
	}
	return text
}

func TestWithoutDNSMachinesAskABalancerOfSeveralAddresses(t *testing.T) {
	in := input(t, golden+"minimal-dns-none")
	c, err := model.UserData(in, group(t, in, api.RoleNode), addressAt("s1"), resource.Lit("10.0.0.9"), addressAt("s2"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"https://10.0.0.1:3988/", "https://10.0.0.9:3988/", "https://10.0.0.2:3988/"}
	if s := bootConfig(t, resolve(t, c)).ConfigServer; !slices.Equal(s.Servers, want) {
		t.Errorf("got %v, want %v", s.Servers, want)
	}
	if _, err := model.UserData(in, group(t, in, api.RoleNode), addressAt("s1"), resource.Lit("lb.example.com")); err == nil {
		t.Error("one of several is no address, and no error")
	}
}

func TestWithoutDNSSeparateAPIServersGetTheAddressesOfEtcd(t *testing.T) {
	in := input(t, golden+"minimal-dns-none")
	g := *group(t, in, api.RoleNode)
	g.Name, g.Spec.Role = "apiservers", api.RoleAPIServer
	in.Groups = append(in.Groups, &g)
	c, err := model.UserData(in, &g, addressAt("s3"))
	if err != nil {
		t.Fatal(err)
	}
	if b := bootConfig(t, resolve(t, c)); !slices.Equal(b.EtcdIPs, []string{"10.0.0.3"}) || b.APIServerIPs != nil || b.ConfigServer != nil {
		t.Errorf("%+v", b)
	}
	cp, err := model.UserData(in, group(t, in, api.RoleControlPlane), addressAt("s3"))
	if b := bootConfig(t, resolve(t, cp)); err != nil || b.EtcdIPs != nil {
		t.Errorf("a control plane, which has etcd itself: %+v, %v", b, err)
	}
}
