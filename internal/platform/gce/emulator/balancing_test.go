package emulator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

// group creates a group of size instances in network n.
func (c *cloud) group(name string, size int64, pools ...string) {
	c.Helper()
	c.done(c.InstanceGroupManagers.Insert(project, zone, &compute.InstanceGroupManager{Name: name, BaseInstanceName: "nodes", InstanceTemplate: "global/instanceTemplates/t", TargetSize: size, TargetPools: pools, ForceSendFields: []string{"TargetSize"}}).Do())
	c.clock.Sleep(c.Context(), time.Minute)
}

func TestAnInternalLoadBalancer(t *testing.T) {
	sick := map[string]bool{}
	c := play(t, emulator.Options{Healthy: func(i emulator.Instance, port int) bool { return port == 443 && !sick[i.Name] }})
	c.network()
	c.template("t")
	c.group("m", 2)
	c.done(c.RegionHealthChecks.Insert(project, region, &compute.HealthCheck{Name: "api", Type: "TCP", TcpHealthCheck: &compute.TCPHealthCheck{Port: 443}}).Do())
	check, err := c.RegionHealthChecks.Get(project, region, "api").Do()
	if err != nil || check.CheckIntervalSec != 5 || check.HealthyThreshold != 2 || check.TcpHealthCheck.ProxyHeader != "NONE" {
		t.Errorf("got %+v, %v", check, err)
	}
	groupURL := "https://www.googleapis.com/compute/v1/projects/testproject/zones/us-test1-a/instanceGroups/m"
	c.done(c.RegionBackendServices.Insert(project, region, &compute.BackendService{Name: "api", LoadBalancingScheme: "INTERNAL", Protocol: "TCP", HealthChecks: []string{check.SelfLink}, Backends: []*compute.Backend{{Group: groupURL}}}).Do())
	backend, err := c.RegionBackendServices.Get(project, region, "api").Do()
	if err != nil || backend.Backends[0].BalancingMode != "CONNECTION" || backend.Fingerprint == "" {
		t.Fatalf("got %+v, %v", backend, err)
	}
	_, err = c.RegionHealthChecks.Delete(project, region, "api").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "regions/us-test1/backendServices/api")
	_, err = c.InstanceGroupManagers.Delete(project, zone, "m").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "The instance_group resource 'projects/testproject/zones/us-test1-a/instanceGroups/m' is already being used by")

	health, err := c.RegionBackendServices.GetHealth(project, region, "api", &compute.ResourceGroupReference{Group: groupURL}).Do()
	if err != nil || len(health.HealthStatus) != 2 || health.HealthStatus[0].HealthState != "HEALTHY" || health.HealthStatus[0].Port != 443 {
		t.Fatalf("got %+v, %v", health, err)
	}
	sick[lastPart(health.HealthStatus[1].Instance)] = true
	if health, err = c.RegionBackendServices.GetHealth(project, region, "api", &compute.ResourceGroupReference{Group: groupURL}).Do(); err != nil || health.HealthStatus[1].HealthState != "UNHEALTHY" {
		t.Errorf("got %+v, %v", health, err)
	}

	c.done(c.Addresses.Insert(project, region, &compute.Address{Name: "api-s", AddressType: "INTERNAL", Purpose: "SHARED_LOADBALANCER_VIP", Subnetwork: "regions/us-test1/subnetworks/s"}).Do())
	address, err := c.Addresses.Get(project, region, "api-s").Do()
	if err != nil || !strings.HasPrefix(address.Address, "10.0.16.") || address.Status != "RESERVED" {
		t.Fatalf("got %+v, %v", address, err)
	}
	rule := func(name, ip string, ports ...string) *compute.ForwardingRule {
		return &compute.ForwardingRule{Name: name, LoadBalancingScheme: "INTERNAL", IPProtocol: "TCP", Ports: ports, BackendService: backend.SelfLink, Network: "global/networks/n", Subnetwork: "regions/us-test1/subnetworks/s", IPAddress: ip, Labels: map[string]string{"name": name}}
	}
	c.done(c.ForwardingRules.Insert(project, region, rule("api-s", address.SelfLink, "443")).Do())
	c.done(c.ForwardingRules.Insert(project, region, rule("kops-controller-s", address.Address, "3988")).Do())
	_, err = c.ForwardingRules.Insert(project, region, rule("third", address.Address, "443")).Do()
	c.checkRefused(err, 400, "invalid", "would result in a conflict")
	made, err := c.ForwardingRules.Get(project, region, "kops-controller-s").Do()
	if err != nil || made.IPAddress != address.Address || made.LabelFingerprint == "" {
		t.Errorf("got %+v, %v", made, err)
	}
	if address, err = c.Addresses.Get(project, region, "api-s").Do(); err != nil || address.Status != "IN_USE" || len(address.Users) != 2 {
		t.Errorf("got %+v, %v", address, err)
	}
	_, err = c.Addresses.Delete(project, region, "api-s").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "regions/us-test1/forwardingRules/api-s")
	_, err = c.RegionBackendServices.Delete(project, region, "api").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "regions/us-test1/forwardingRules/api-s")
	_, text := getMetadata(t, c.Metadata(project, zone, lastPart(health.HealthStatus[0].Instance)), "/computeMetadata/v1/instance/network-interfaces/0/forwarded-ips")
	if text != address.Address+"\n" {
		t.Errorf("an instance behind the load balancer takes %q for its own, and not %s", text, address.Address)
	}

	c.done(c.ForwardingRules.SetLabels(project, region, "api-s", &compute.RegionSetLabelsRequest{LabelFingerprint: mustRule(c, "api-s").LabelFingerprint, Labels: map[string]string{"only": "this"}}).Do())
	if r := mustRule(c, "api-s"); len(r.Labels) != 1 || r.Labels["only"] != "this" {
		t.Errorf("got %v", r.Labels)
	}
	_, err = c.ForwardingRules.SetLabels(project, region, "api-s", &compute.RegionSetLabelsRequest{LabelFingerprint: made.LabelFingerprint}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")

	_, err = c.RegionBackendServices.Patch(project, region, "api", &compute.BackendService{TimeoutSec: 60, Fingerprint: "AAAAAAAAAAA="}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "")
	c.done(c.RegionBackendServices.Patch(project, region, "api", &compute.BackendService{TimeoutSec: 60, Fingerprint: backend.Fingerprint}).Do())
	c.done(c.ForwardingRules.Delete(project, region, "api-s").Do())
	c.done(c.ForwardingRules.Delete(project, region, "kops-controller-s").Do())
	c.done(c.RegionBackendServices.Delete(project, region, "api").Do())
	c.done(c.InstanceGroupManagers.Delete(project, zone, "m").Do())
}

func mustRule(c *cloud, name string) *compute.ForwardingRule {
	c.Helper()
	r, err := c.ForwardingRules.Get(project, region, name).Do()
	if err != nil {
		c.Fatal(err)
	}
	return r
}

func TestAnExternalLoadBalancer(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.done(c.HttpHealthChecks.Insert(project, &compute.HttpHealthCheck{Name: "api", Port: 3990, RequestPath: "/healthz"}).Do())
	c.done(c.TargetPools.Insert(project, region, &compute.TargetPool{Name: "api"}).Do())
	c.done(c.TargetPools.AddHealthCheck(project, region, "api", &compute.TargetPoolsAddHealthCheckRequest{HealthChecks: []*compute.HealthCheckReference{{HealthCheck: "global/httpHealthChecks/api"}}}).Do())
	_, err := c.HttpHealthChecks.Delete(project, "api").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "regions/us-test1/targetPools/api")
	c.group("m", 2, "regions/us-test1/targetPools/api")
	pool, err := c.TargetPools.Get(project, region, "api").Do()
	if err != nil || len(pool.Instances) != 2 || len(pool.HealthChecks) != 1 || pool.SessionAffinity != "NONE" {
		t.Fatalf("got %+v, %v", pool, err)
	}
	c.done(c.Addresses.Insert(project, region, &compute.Address{Name: "api"}).Do())
	address, err := c.Addresses.Get(project, region, "api").Do()
	if err != nil || address.AddressType != "EXTERNAL" || address.NetworkTier != "PREMIUM" || !strings.HasPrefix(address.Address, "34.") {
		t.Errorf("got %+v, %v", address, err)
	}
	c.done(c.ForwardingRules.Insert(project, region, &compute.ForwardingRule{Name: "api", IPProtocol: "TCP", PortRange: "443-443", Target: pool.SelfLink, IPAddress: address.Address}).Do())
	if r := mustRule(c, "api"); r.IPAddress != address.Address || r.LoadBalancingScheme != "EXTERNAL" || r.PortRange != "443-443" {
		t.Errorf("got %+v", r)
	}
	health, err := c.TargetPools.GetHealth(project, region, "api", &compute.InstanceReference{Instance: pool.Instances[0]}).Do()
	if err != nil || len(health.HealthStatus) != 1 || health.HealthStatus[0].HealthState != "HEALTHY" || health.HealthStatus[0].ForwardingRuleIp != address.Address {
		t.Errorf("got %+v, %v", health, err)
	}
	_, err = c.TargetPools.Delete(project, region, "api").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "regions/us-test1/forwardingRules/api")
	c.done(c.TargetPools.RemoveInstance(project, region, "api", &compute.TargetPoolsRemoveInstanceRequest{Instances: []*compute.InstanceReference{{Instance: pool.Instances[0]}}}).Do())
	if now, err := c.TargetPools.Get(project, region, "api").Do(); err != nil || !slices.Equal(now.Instances, pool.Instances[1:]) {
		t.Errorf("got %+v, %v", now, err)
	}
	c.done(c.InstanceGroupManagers.SetTargetPools(project, zone, "m", &compute.InstanceGroupManagersSetTargetPoolsRequest{TargetPools: []string{}, ForceSendFields: []string{"TargetPools"}}).Do())
	if now, err := c.TargetPools.Get(project, region, "api").Do(); err != nil || len(now.Instances) > 0 {
		t.Errorf("got %+v, %v", now, err)
	}
	c.done(c.InstanceGroupManagers.SetTargetPools(project, zone, "m", &compute.InstanceGroupManagersSetTargetPoolsRequest{TargetPools: []string{pool.SelfLink}}).Do())
	if now, err := c.TargetPools.Get(project, region, "api").Do(); err != nil || len(now.Instances) != 2 {
		t.Errorf("got %+v, %v", now, err)
	}
	c.done(c.InstanceGroupManagers.Resize(project, zone, "m", 0).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if now, err := c.TargetPools.Get(project, region, "api").Do(); err != nil || len(now.Instances) > 0 {
		t.Errorf("instances that are gone are in the pool: %+v, %v", now, err)
	}
	c.done(c.TargetPools.RemoveHealthCheck(project, region, "api", &compute.TargetPoolsRemoveHealthCheckRequest{HealthChecks: []*compute.HealthCheckReference{{HealthCheck: "global/httpHealthChecks/api"}}}).Do())
	c.done(c.HttpHealthChecks.Update(project, "api", &compute.HttpHealthCheck{Name: "api", Port: 8080}).Do())
	if h, err := c.HttpHealthChecks.Get(project, "api").Do(); err != nil || h.Port != 8080 || h.RequestPath != "/" {
		t.Errorf("a field that was not sent stays: %+v, %v", h, err)
	}
	c.done(c.HttpHealthChecks.Delete(project, "api").Do())
}

func TestLoadBalancersRefuse(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.done(c.TargetPools.Insert(project, region, &compute.TargetPool{Name: "p"}).Do())
	c.done(c.RegionHealthChecks.Insert(project, region, &compute.HealthCheck{Name: "h", Type: "TCP", TcpHealthCheck: &compute.TCPHealthCheck{Port: 443}}).Do())
	c.done(c.RegionBackendServices.Insert(project, region, &compute.BackendService{Name: "b", LoadBalancingScheme: "INTERNAL", HealthChecks: []string{"regions/us-test1/healthChecks/h"}}).Do())
	c.done(c.Addresses.Insert(project, region, &compute.Address{Name: "own", AddressType: "INTERNAL", Subnetwork: "regions/us-test1/subnetworks/s", Address: "10.0.16.9"}).Do())
	internal := compute.ForwardingRule{Name: "r", LoadBalancingScheme: "INTERNAL", Ports: []string{"443"}, BackendService: "regions/us-test1/backendServices/b", Network: "global/networks/n", Subnetwork: "regions/us-test1/subnetworks/s"}
	c.instance("i")
	one := internal
	one.Name, one.IPAddress = "one", "10.0.16.9"
	c.done(c.ForwardingRules.Insert(project, region, &one).Do())
	rule := func(change func(*compute.ForwardingRule)) func() error {
		return func() error {
			r := internal
			change(&r)
			_, err := c.ForwardingRules.Insert(project, region, &r).Do()
			return err
		}
	}
	check := func(h compute.HealthCheck) func() error {
		return func() error {
			h.Name = "x"
			_, err := c.RegionHealthChecks.Insert(project, region, &h).Do()
			return err
		}
	}
	address := func(a compute.Address) func() error {
		return func() error { a.Name = "x"; _, err := c.Addresses.Insert(project, region, &a).Do(); return err }
	}
	for _, r := range []struct {
		name  string
		do    func() error
		words string
	}{
		{"an address that is not shared", rule(func(r *compute.ForwardingRule) { r.IPAddress, r.Ports = "10.0.16.9", []string{"3988"} }), "SHARED_LOADBALANCER_VIP"},
		{"an address of an instance", rule(func(r *compute.ForwardingRule) { r.IPAddress = "10.0.16.2" }), "already in use by 'projects/testproject/zones/us-test1-a/instances/i'"},
		{"an address of elsewhere", rule(func(r *compute.ForwardingRule) { r.IPAddress = "10.1.0.1" }), "not in the range"},
		{"a range of ports", rule(func(r *compute.ForwardingRule) { r.PortRange = "443-443" }), "resource.portRange"},
		{"a target too", rule(func(r *compute.ForwardingRule) { r.Target = "regions/us-test1/targetPools/p" }), "Exactly one"},
		{"no ports", rule(func(r *compute.ForwardingRule) { r.Ports = nil }), "resource.ports"},
		{"six ports", rule(func(r *compute.ForwardingRule) { r.Ports = []string{"1", "2", "3", "4", "5", "6"} }), "5 ports"},
		{"no subnetwork", rule(func(r *compute.ForwardingRule) { r.Subnetwork = "" }), "custom mode"},
		{"another scheme", rule(func(r *compute.ForwardingRule) { r.LoadBalancingScheme = "EXTERNAL" }), "resource.loadBalancingScheme"},
		{"a label in capitals", rule(func(r *compute.ForwardingRule) { r.Labels = map[string]string{"A": "b"} }), "Label key 'A'"},
		{"a label with dots", rule(func(r *compute.ForwardingRule) { r.Labels = map[string]string{"a": "b.c"} }), "Label value 'b.c'"},
		{"a check of no kind", check(compute.HealthCheck{}), "resource.type"},
		{"a check of another kind", check(compute.HealthCheck{Type: "SSL", TcpHealthCheck: &compute.TCPHealthCheck{Port: 1}}), "resource.tcpHealthCheck"},
		{"a check without its settings", check(compute.HealthCheck{Type: "SSL"}), "resource.sslHealthCheck"},
		{"a check that takes too long", check(compute.HealthCheck{Type: "TCP", TcpHealthCheck: &compute.TCPHealthCheck{Port: 1}, TimeoutSec: 10}), "resource.timeoutSec"},
		{"an internal address nowhere", address(compute.Address{AddressType: "INTERNAL"}), "resource.subnetwork"},
		{"an internal address that is taken", address(compute.Address{AddressType: "INTERNAL", Subnetwork: "regions/us-test1/subnetworks/s", Address: "10.0.16.9"}), "already in use"},
		{"an external address of a purpose", address(compute.Address{Purpose: "SHARED_LOADBALANCER_VIP"}), "resource.purpose"},
		{"a backend service without a check", func() error {
			_, err := c.RegionBackendServices.Insert(project, region, &compute.BackendService{Name: "x", LoadBalancingScheme: "INTERNAL"}).Do()
			return err
		}, "resource.healthChecks"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := *c
			c.T = t
			err := r.do()
			if err == nil || !strings.Contains(err.Error(), r.words) || !hasStatus(err, 400) {
				t.Errorf("got %v, want %q", err, r.words)
			}
		})
	}
}

func TestAnUnmanagedGroup(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	i := c.instance("i")
	c.done(c.InstanceGroups.Insert(project, zone, &compute.InstanceGroup{Name: "g"}).Do())
	add := func() (*compute.Operation, error) {
		return c.InstanceGroups.AddInstances(project, zone, "g", &compute.InstanceGroupsAddInstancesRequest{Instances: []*compute.InstanceReference{{Instance: i.SelfLink}}}).Do()
	}
	remove := func() (*compute.Operation, error) {
		return c.InstanceGroups.RemoveInstances(project, zone, "g", &compute.InstanceGroupsRemoveInstancesRequest{Instances: []*compute.InstanceReference{{Instance: i.SelfLink}}}).Do()
	}
	_, err := remove()
	c.checkRefused(err, 400, "memberNotFound", "is not a member")
	c.done(add())
	_, err = add()
	c.checkRefused(err, 400, "memberAlreadyExists", "already a member")
	g, err := c.InstanceGroups.Get(project, zone, "g").Do()
	if err != nil || g.Size != 1 || lastPart(g.Network) != "n" || lastPart(g.Subnetwork) != "s" {
		t.Errorf("got %+v, %v", g, err)
	}
	c.done(c.InstanceGroups.SetNamedPorts(project, zone, "g", &compute.InstanceGroupsSetNamedPortsRequest{NamedPorts: []*compute.NamedPort{{Name: "http", Port: 80}}}).Do())
	c.done(c.HealthChecks.Insert(project, &compute.HealthCheck{Name: "h", Type: "HTTP", HttpHealthCheck: &compute.HTTPHealthCheck{Port: 10256}}).Do())
	c.done(c.RegionBackendServices.Insert(project, region, &compute.BackendService{Name: "b", LoadBalancingScheme: "INTERNAL", HealthChecks: []string{"global/healthChecks/h"}, Backends: []*compute.Backend{{Group: g.SelfLink}}}).Do())
	health, err := c.RegionBackendServices.GetHealth(project, region, "b", &compute.ResourceGroupReference{Group: g.SelfLink}).Do()
	if err != nil || len(health.HealthStatus) != 1 || health.HealthStatus[0].Port != 10256 {
		t.Errorf("got %+v, %v", health, err)
	}
	_, err = c.InstanceGroups.Delete(project, zone, "g").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "regions/us-test1/backendServices/b")
	c.done(c.RegionBackendServices.Delete(project, region, "b").Do())
	c.done(c.Instances.Delete(project, zone, "i").Do())
	if g, err = c.InstanceGroups.Get(project, zone, "g").Do(); err != nil || g.Size != 0 || g.NamedPorts[0].Port != 80 {
		t.Errorf("got %+v, %v", g, err)
	}
	c.template("t")
	_, err = c.InstanceGroupManagers.Insert(project, zone, &compute.InstanceGroupManager{Name: "g", InstanceTemplate: "global/instanceTemplates/t", TargetSize: 1}).Do()
	c.checkRefused(err, 409, "alreadyExists", "instanceGroups/g")
	c.done(c.InstanceGroups.Delete(project, zone, "g").Do())
	c.group("m", 1)
	_, err = c.InstanceGroups.Delete(project, zone, "m").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "instanceGroupManagers/m")
}
