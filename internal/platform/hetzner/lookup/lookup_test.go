package lookup_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/lookup"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

func client(t *testing.T, o emulator.Options) (*emulatortest.Cloud, *hetznerapi.Client) {
	t.Helper()
	cloud := emulatortest.Start(t, o)
	return cloud, hetznerapi.New(hetznerapi.Config{Endpoint: cloud.URL, Token: "token", HTTP: cloud.HTTP, Pause: cloud.Sleep})
}

// look returns the facts, as a file holds them, and Hetzner's own.
func look(t *testing.T, c *hetznerapi.Client, q lookup.Query) (*facts.Cloud, spec.Facts) {
	t.Helper()
	f, err := lookup.Facts(t.Context(), c, time.Unix(0, 0), q)
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if f, err = facts.Parse(text); err != nil {
		t.Fatal(err)
	}
	own, err := facts.OwnAs[spec.Facts](f.Of("hetzner"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Of("hetzner"), own
}

// cluster returns a cluster with two groups.
func cluster(network string) (*api.Cluster, []*api.InstanceGroup) {
	c := &api.Cluster{}
	c.Name, c.Spec.Networking.NetworkID = "a.example.com", network
	c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: "main", Zone: "fsn1"}, {Name: "other", Zone: "hel1"}}
	group := func(name, subnet, kind, image string) *api.InstanceGroup {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Subnets: []string{subnet}, MachineType: kind, Image: image}}
		g.Name = name
		return g
	}
	return c, []*api.InstanceGroup{group("cp", "main", "cx33", "ubuntu-24.04"), group("nodes", "other", "cax11", "debian-12")}
}

func TestFactsOfACluster(t *testing.T) {
	_, c := client(t, emulator.Options{})
	f, own := look(t, c, lookup.ClusterQuery(cluster("")))
	if f.Region != "eu-central" || !slices.Equal(f.Zones, []string{"fsn1", "hel1", "nbg1"}) {
		t.Errorf("region %s, zones %v", f.Region, f.Zones)
	}
	if m := f.MachineTypes["cx33"]; m.VCPU != 4 || m.MemoryMiB != 8192 || !m.Supports(facts.ArchX86) || !slices.Contains(m.Zones, "sin") {
		t.Errorf("%+v", m)
	}
	if !f.MachineTypes["cax11"].Supports(facts.ArchARM) || f.MachineTypes["cx23"].VCPU != 2 || len(f.MachineTypes["cx53"].Zones) != 0 {
		t.Errorf("%+v", f.MachineTypes)
	}
	if i := f.Images["ubuntu-24.04"]; i.ID != "ubuntu-24.04" || i.Architecture != "" {
		t.Errorf("an image for both architectures: %+v", i)
	}
	if own.APIAddress != "" || own.NetworkNumber != "" || len(f.Networks) != 0 {
		t.Errorf("%+v", own)
	}
}

// The number of a system image is the same image as its name.
func TestImagesByNumber(t *testing.T) {
	_, c := client(t, emulator.Options{})
	all, err := hetznerapi.List[hetznerapi.Image](t.Context(), c, "images", nil)
	if err != nil {
		t.Fatal(err)
	}
	number := fmt.Sprint(all[0].ID)
	f, _ := look(t, c, lookup.Query{Usual: asks.Usual{Images: []asks.Reference{{Name: number}}}})
	if i := f.Images[number]; i.ID != all[0].Name || i.Architecture != facts.ArchX86 {
		t.Errorf("%+v", i)
	}
}

// answers replaces the answers to some paths.
type answers map[string]string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	text, ok := a[strings.TrimPrefix(r.URL.Path, "/v1/")]
	if !ok {
		return nil, fmt.Errorf("%s is not expected", r.URL)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// What is deprecated is a warning as long as it is offered, and after that an error.
func TestWhatIsNoLongerOffered(t *testing.T) {
	c := hetznerapi.New(hetznerapi.Config{Token: "token", HTTP: &http.Client{Transport: answers{
		"locations": `{"locations": [{"name": "fsn1", "network_zone": "eu-central"}, {"name": "hel1", "network_zone": "eu-central"}]}`,
		"server_types": `{"server_types": [{"name": "cx33", "architecture": "x86", "locations": [{"name": "fsn1", "deprecation": {"unavailable_after": "2026-03-01T00:00:00Z"}}, {"name": "hel1"}]},
			{"name": "cax11", "architecture": "arm", "locations": [{"name": "hel1", "deprecation": {"unavailable_after": "2026-02-01T00:00:00Z"}}]}]}`,
		"images":         `{"images": [{"id": 1, "name": "x", "architecture": "x86", "deprecated": "2026-01-01T00:00:00Z"}]}`,
		"load_balancers": `{"load_balancers": []}`,
	}}})
	q := lookup.ClusterQuery(cluster(""))
	at := func(month time.Month) time.Time { return time.Date(2026, month, 15, 0, 0, 0, 0, time.UTC) }
	f, err := lookup.Facts(t.Context(), c, at(time.January), q)
	if err != nil {
		t.Fatal(err)
	}
	own, err := facts.OwnAs[spec.Facts](f.Of("hetzner"))
	want := map[string]string{"cx33": "no new server can have it after 2026-03-01", "cax11": "no new server can have it after 2026-02-01", "ubuntu-24.04": "it will be removed", "debian-12": "it will be removed"}
	if err != nil || !maps.Equal(own.Deprecated, want) || !slices.Equal(f.Of("hetzner").MachineTypes["cx33"].Zones, []string{"fsn1", "hel1"}) {
		t.Errorf("%v, %+v", err, own)
	}
	_, err = lookup.Facts(t.Context(), c, at(time.March), q)
	var found diag.List
	if !errors.As(err, &found) || len(found) != 2 || !strings.Contains(found[0].String(), `InstanceGroup/nodes: spec.machineType: there is no such machine type, got "cax11"`) ||
		!strings.Contains(found[1].String(), `InstanceGroup/cp: spec.machineType: the machine type is not available in fsn1, got "cx33"; choose another machine type, or a location among hel1`) {
		t.Error(err)
	}
}

func TestWhatDoesNotExistIsAFinding(t *testing.T) {
	_, c := client(t, emulator.Options{})
	o := newcluster.Options{Zones: []string{"fsn9"}, Image: "windows", NodeImage: "77", NodeSizes: []string{"cx99"}, NetworkID: "none"}
	_, err := lookup.Facts(t.Context(), c, time.Unix(0, 0), lookup.NewClusterQuery(o, newcluster.World{}))
	var found diag.List
	if !errors.As(err, &found) || len(found) != 5 {
		t.Fatal(err)
	}
	for i, want := range []string{"option:Zones: there is no such location, got \"fsn9\"; use one of fsn1", "option:Image: there is no such image", "option:NodeImage", "option:NodeSizes: there is no such machine type", "option:NetworkID: there is no such network"} {
		if !strings.HasPrefix(found[i].String(), want) {
			t.Errorf("%s, want %s", found[i], want)
		}
	}
	for _, token := range []string{"", "wrong"} {
		cloud := emulatortest.Start(t, emulator.Options{Token: "right"})
		bad := hetznerapi.New(hetznerapi.Config{Endpoint: cloud.URL, Token: token})
		if _, err := lookup.Facts(t.Context(), bad, time.Unix(0, 0), lookup.Query{}); !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "set HCLOUD_TOKEN") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// A shared network needs a subnet where the cluster is.
func TestANetworkElsewhere(t *testing.T) {
	_, c := client(t, emulator.Options{})
	if _, err := hetznerapi.Create[hetznerapi.Object](t.Context(), c, "networks", map[string]any{"name": "us", "ip_range": "10.8.0.0/16", "subnets": []any{map[string]any{"type": "cloud", "network_zone": "us-east", "ip_range": "10.8.0.0/24"}}}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []lookup.Query{lookup.ClusterQuery(cluster("us")), lookup.NewClusterQuery(newcluster.Options{Zones: []string{"fsn1"}, NetworkID: "us"}, newcluster.World{})} {
		_, err := lookup.Facts(t.Context(), c, time.Unix(0, 0), q)
		if err == nil || !strings.Contains(err.Error(), `the network has no subnet for servers in the network zone eu-central, got "us"; use the name or the number of another network (hcloud network list), or add a subnet (hcloud network add-subnet)`) {
			t.Error(err)
		}
	}
}

// The address of the load balancer is the one that it has; in a shared network otherwise the last that
// neither a load balancer nor a server has.
func TestTheAddressOfTheLoadBalancer(t *testing.T) {
	_, c := client(t, emulator.Options{})
	create := func(kind string, body map[string]any) int64 {
		t.Helper()
		o, err := hetznerapi.Create[hetznerapi.Object](t.Context(), c, kind, body)
		if err != nil {
			t.Fatal(err)
		}
		return o.ID
	}
	network := create("networks", map[string]any{"name": "ours", "ip_range": "10.8.0.0/16", "subnets": []any{map[string]any{"type": "cloud", "network_zone": "us-west", "ip_range": "10.8.2.0/24"}, map[string]any{"type": "cloud", "network_zone": "eu-central", "ip_range": "10.8.1.0/29"}}})
	f, own := look(t, c, lookup.ClusterQuery(cluster("ours")))
	if own.APIAddress != "10.8.1.6" || own.NetworkNumber != fmt.Sprint(network) || !slices.Equal(f.Networks["ours"].CIDRs, []string{"10.8.0.0/16"}) {
		t.Errorf("%+v %+v", own, f.Networks)
	}
	balancer := func(name, cluster, address string) {
		t.Helper()
		id := create("load_balancers", map[string]any{"name": name, "load_balancer_type": "lb11", "location": "fsn1", "labels": map[string]string{"kops.k8s.io/cluster": cluster}})
		if err := c.Act(t.Context(), hetznerapi.Path("load_balancers", id), "attach_to_network", map[string]any{"network": network, "ip": address}); err != nil {
			t.Fatal(err)
		}
	}
	balancer("api.b.example.com", "b.example.com", "10.8.1.6")
	server := create("servers", map[string]any{"name": "s", "server_type": "cx23", "image": "debian-12", "location": "fsn1"})
	if err := c.Act(t.Context(), hetznerapi.Path("servers", server), "attach_to_network", map[string]any{"network": network, "ip": "10.8.1.5"}); err != nil {
		t.Fatal(err)
	}
	if _, own = look(t, c, lookup.ClusterQuery(cluster(fmt.Sprint(network)))); own.APIAddress != "10.8.1.4" {
		t.Errorf("%+v", own)
	}
	balancer("api.a.example.com", "a.example.com", "10.8.1.3")
	if _, own = look(t, c, lookup.ClusterQuery(cluster("ours"))); own.APIAddress != "10.8.1.3" {
		t.Errorf("%+v", own)
	}
	if _, own = look(t, c, lookup.ClusterQuery(cluster(""))); own.APIAddress != "10.8.1.3" {
		t.Errorf("%+v", own)
	}
}
