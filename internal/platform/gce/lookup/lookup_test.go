package lookup

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"
	"google.golang.org/api/iam/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// google responds as Google does, with one entry per page.
type google struct {
	*httptest.Server
	// objects holds responses by path, lists the items of lists by path, and aggregated the items
	// of all zones or regions by path and scope.
	objects    map[string]any
	lists      map[string][]any
	aggregated map[string]map[string][]any
	// fails holds the status of the next response by path, used once.
	fails map[string]int

	lock     sync.Mutex
	requests []string
}

const (
	of      = "/compute/v1/projects/p1/"
	link    = "https://www.googleapis.com/compute/v1/projects/"
	cluster = "a.example.com"
)

func start(t *testing.T) (*google, *gceapi.Clients) {
	t.Helper()
	g := &google{objects: map[string]any{}, lists: map[string][]any{}, aggregated: map[string]map[string][]any{}, fails: map[string]int{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	g.objects[of[:len(of)-1]] = compute.Project{DefaultServiceAccount: "1-compute@developer.gserviceaccount.com",
		Quotas: []*compute.Quota{{Metric: "NETWORKS", Limit: 5, Usage: 1}, {Metric: "CPUS", Limit: 100}}}
	g.objects[of+"regions/us-test1"] = compute.Region{Zones: []string{link + "p1/zones/us-test1-b", link + "p1/zones/us-test1-a"},
		Quotas: []*compute.Quota{{Metric: "CPUS", Limit: 24, Usage: 4}}}
	uefi := []*compute.GuestOsFeature{{Type: "GVNIC"}, {Type: "UEFI_COMPATIBLE"}}
	g.objects["/compute/v1/projects/ubuntu-os-cloud/global/images/ubuntu-1"] = compute.Image{Name: "ubuntu-1", DiskSizeGb: 10, Architecture: "X86_64", GuestOsFeatures: uefi}
	g.objects["/compute/v1/projects/ubuntu-os-cloud/global/images/family/ubuntu"] = compute.Image{Name: "ubuntu-1", DiskSizeGb: 10, GuestOsFeatures: uefi}
	g.objects[of+"global/images/mine"] = compute.Image{Name: "mine", DiskSizeGb: 25, Architecture: "ARM64", Deprecated: &compute.DeprecationStatus{State: "OBSOLETE"}}
	medium := compute.MachineType{Name: "e2-medium", GuestCpus: 2, MemoryMb: 4096, Zone: "us-test1-a", Architecture: "X86_64"}
	other, elsewhere := medium, medium
	other.Zone, elsewhere.Zone = "us-test1-b", "us-test2-a"
	g.aggregated[of+"aggregated/machineTypes"] = map[string][]any{"zones/us-test1-a": {medium,
		compute.MachineType{Name: "a2-highgpu-1g", GuestCpus: 12, MemoryMb: 87040, Zone: "us-test1-a", Accelerators: []*compute.MachineTypeAccelerators{{GuestAcceleratorType: "nvidia-tesla-a100"}}},
		compute.MachineType{Name: "n1-standard-1", Zone: "us-test1-a"}}, "zones/us-test1-b": {other}, "zones/us-test2-a": {elsewhere}}
	g.aggregated[of+"aggregated/acceleratorTypes"] = map[string][]any{"zones/us-test1-b": {compute.AcceleratorType{Name: "nvidia-tesla-t4", Zone: link + "p1/zones/us-test1-b"}},
		"zones/us-test2-a": {compute.AcceleratorType{Name: "nvidia-tesla-t4", Zone: link + "p1/zones/us-test2-a"}}}
	g.objects["/v1/projects/-/serviceAccounts/nodes@p1.iam.gserviceaccount.com"] = iam.ServiceAccount{Email: "nodes@p1.iam.gserviceaccount.com"}
	g.lists["/dns/v1/projects/p1/managedZones"] = []any{
		dns.ManagedZone{Id: 7, DnsName: "example.com.", Name: "z", Visibility: "public"}, dns.ManagedZone{Id: 8, DnsName: "ample.com.", Visibility: "public"},
		dns.ManagedZone{Id: 9, DnsName: "example.com.", Visibility: "private", PrivateVisibilityConfig: &dns.ManagedZonePrivateVisibilityConfig{
			Networks: []*dns.ManagedZonePrivateVisibilityConfigNetwork{{NetworkUrl: link + "p1/global/networks/n"}}}}}
	return g, g.clients(t)
}

func (g *google) clients(t *testing.T) *gceapi.Clients {
	t.Helper()
	c, err := gceapi.Connect(t.Context(), gceapi.Config{Project: "p1", Region: "us-test1", Endpoint: g.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var inFilter = regexp.MustCompile(`name = "([^"]*)"`)

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.lock.Lock()
	defer g.lock.Unlock()
	path := r.URL.Path
	g.requests = append(g.requests, path)
	status, answer := http.StatusNotFound, any(map[string]any{"error": map[string]any{"code": 404, "message": "The resource '" + path + "' was not found"}})
	if code, fails := g.fails[path]; fails {
		delete(g.fails, path)
		status, answer = code, map[string]any{"error": map[string]any{"code": code, "message": "no"}}
	} else if o, ok := g.objects[path]; ok {
		status, answer = http.StatusOK, o
	} else if items, ok := g.lists[path]; ok {
		status, answer = http.StatusOK, page(r, "managedZones", items)
	} else if scopes, ok := g.aggregated[path]; ok {
		status, answer = http.StatusOK, scope(r, scopes)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // if it fails, the client reports it
}

// page returns one item, and a token for the next one.
func page(r *http.Request, key string, items []any) map[string]any {
	n := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("pageToken"), &n) // an empty token is the first page
	out := map[string]any{key: items[n : n+1]}
	if n+1 < len(items) {
		out["nextPageToken"] = fmt.Sprint(n + 1)
	}
	return out
}

// scope returns one zone or region with the items that the filter selects, and the token of the
// next one.
func scope(r *http.Request, scopes map[string][]any) map[string]any {
	names := slices.Sorted(maps.Keys(scopes))
	n := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("pageToken"), &n) // an empty token is the first page
	kept := []any{}
	for _, item := range scopes[names[n]] {
		name := map[string]any{}
		text, _ := json.Marshal(item)
		_ = json.Unmarshal(text, &name) // written just above
		filter := r.URL.Query().Get("filter")
		if filter == "" || slices.ContainsFunc(inFilter.FindAllStringSubmatch(filter, -1), func(m []string) bool { return m[1] == name["name"] }) {
			kept = append(kept, item)
		}
	}
	in := map[string]any{gceapi.Name(r.URL.Path): kept}
	if len(kept) == 0 {
		in = map[string]any{"warning": map[string]any{"code": "NO_RESULTS_ON_PAGE"}}
	}
	out := map[string]any{"items": map[string]any{names[n]: in}}
	if n+1 < len(names) {
		out["nextPageToken"] = fmt.Sprint(n + 1)
	}
	return out
}

// objects returns a plain cluster with DNS names.
func objects() (*api.Cluster, []*api.InstanceGroup) {
	c := &api.Cluster{}
	c.Name = cluster
	c.Spec.CloudProvider.GCE = &api.GCESpec{Project: "p1"}
	c.Spec.Networking.Topology = &api.TopologySpec{DNS: api.DNSPublic}
	c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: "us-test1", Region: "us-test1", CIDR: "10.0.16.0/20"}}
	g := &api.InstanceGroup{}
	g.Name, g.Spec.Role, g.Spec.Image, g.Spec.MachineType, g.Spec.Zones = "nodes", api.RoleNode, "ubuntu-os-cloud/ubuntu-1", "e2-medium", []string{"us-test1-a", "us-test1-b"}
	return c, []*api.InstanceGroup{g}
}

func lookUp(t *testing.T, c *gceapi.Clients, q Query) (*facts.Cloud, spec.Facts) {
	t.Helper()
	f, err := Facts(t.Context(), c, nil, q)
	if err != nil {
		t.Fatal(err)
	}
	own, err := facts.OwnAs[spec.Facts](f.Of("gce"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Of("gce"), own
}

func TestAPlainClusterCostsFewRequests(t *testing.T) {
	g, c := start(t)
	got, own := lookUp(t, c, ClusterQuery(objects()))
	want := []string{of[:len(of)-1], of + "aggregated/machineTypes", of + "aggregated/machineTypes", of + "aggregated/machineTypes", of + "regions/us-test1",
		"/compute/v1/projects/ubuntu-os-cloud/global/images/ubuntu-1", "/dns/v1/projects/p1/managedZones", "/dns/v1/projects/p1/managedZones", "/dns/v1/projects/p1/managedZones"}
	slices.Sort(want)
	slices.Sort(g.requests)
	if d := cmp.Diff(want, g.requests); d != "" { // three pages of types and of zones
		t.Errorf("requests (-want +got):\n%s", d)
	}
	got.Own = nil
	if d := cmp.Diff(&facts.Cloud{Region: "us-test1", Zones: []string{"us-test1-a", "us-test1-b"},
		Images:       map[string]facts.Image{"ubuntu-os-cloud/ubuntu-1": {ID: link + "ubuntu-os-cloud/global/images/ubuntu-1", Architecture: facts.ArchX86}},
		MachineTypes: map[string]facts.MachineType{"e2-medium": {VCPU: 2, MemoryMiB: 4096, Architectures: []string{facts.ArchX86}, Zones: []string{"us-test1-a", "us-test1-b"}}},
		DNSZones:     []facts.DNSZone{{Name: "example.com", ID: "7"}, {Name: "example.com", ID: "9", Private: true, Networks: []string{"n"}}},
		Subnets:      map[string]facts.Subnet{}}, got); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(spec.Facts{Project: "p1", DefaultServiceAccount: "1-compute@developer.gserviceaccount.com", Images: map[string]spec.Image{"ubuntu-os-cloud/ubuntu-1": {DiskSizeGB: 10}},
		Quotas: map[string]float64{"NETWORKS": 5, "CPUS": 24}}, own); d != "" {
		t.Errorf("facts of GCE alone (-want +got):\n%s", d)
	}
}

func TestImagesAndGPUsAreKnown(t *testing.T) {
	_, c := start(t)
	cl, groups := objects()
	groups[0].Spec.Image, groups[0].Spec.MachineType = "ubuntu-os-cloud/ubuntu", "a2-highgpu-1g"
	groups[0].Spec.Zones = []string{"us-test1-a"}
	groups[0].Spec.GuestAccelerators = []api.AcceleratorConfig{{AcceleratorType: "nvidia-tesla-t4", AcceleratorCount: 1}}
	more := groups[0].DeepCopy()
	more.Spec.Image = "mine"
	got, own := lookUp(t, c, ClusterQuery(cl, append(groups, more)))
	if d := cmp.Diff(map[string]string{"ubuntu-os-cloud/ubuntu": "ubuntu-os-cloud/ubuntu-1"}, own.Families); d != "" {
		t.Errorf("families (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]spec.Image{"mine": {DiskSizeGB: 25, State: "OBSOLETE", NoUEFI: true}, "ubuntu-os-cloud/ubuntu": {DiskSizeGB: 10}, "ubuntu-os-cloud/ubuntu-1": {DiskSizeGB: 10}}, own.Images); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
	if i := got.Images["mine"]; i.Architecture != facts.ArchARM || i.ID != link+"p1/global/images/mine" {
		t.Errorf("the image is %+v", i)
	}
	if m := got.MachineTypes["a2-highgpu-1g"]; !m.GPU || m.VCPU != 12 {
		t.Errorf("the machine type is %+v", m)
	}
	if d := cmp.Diff(map[string][]string{"nvidia-tesla-t4": {"us-test1-b"}}, own.Accelerators); d != "" {
		t.Errorf("GPUs (-want +got):\n%s", d)
	}
}

func TestCustomMachineTypesAreNotListed(t *testing.T) {
	g, c := start(t)
	cl, groups := objects()
	for name, want := range map[string]facts.MachineType{
		"custom-4-8192": {VCPU: 4, MemoryMiB: 8192}, "n2-custom-6-20480-ext": {VCPU: 6, MemoryMiB: 20480}, "e2-custom-small-2048": {VCPU: 2, MemoryMiB: 2048},
	} {
		groups[0].Spec.MachineType, g.requests = name, nil
		want.Architectures = []string{facts.ArchX86}
		got, _ := lookUp(t, c, ClusterQuery(cl, groups))
		if d := cmp.Diff(map[string]facts.MachineType{name: want}, got.MachineTypes); d != "" || slices.Contains(g.requests, of+"aggregated/machineTypes") {
			t.Errorf("after %v (-want +got):\n%s", g.requests, d)
		}
	}
	if _, ok := customType("n2-custom-a-1"); ok {
		t.Error("n2-custom-a-1 is a type")
	}
}

// subnet returns a subnet of a network, with a range for pods.
func subnet(name, network, region, cidr string, more ...string) compute.Subnetwork {
	s := compute.Subnetwork{Name: name, Network: network, Region: link + "p1/regions/" + region, IpCidrRange: cidr}
	for _, r := range more {
		s.SecondaryIpRanges = append(s.SecondaryIpRanges, &compute.SubnetworkSecondaryRange{IpCidrRange: r})
	}
	return s
}

func TestRangesOfASharedNetwork(t *testing.T) {
	g, c := start(t)
	g.objects["/compute/v1/projects/host/global/networks/n"] = compute.Network{Name: "n"}
	n, other := link+"host/global/networks/n", link+"host/global/networks/other"
	g.aggregated["/compute/v1/projects/host/aggregated/subnetworks"] = map[string][]any{
		"regions/us-test1": {subnet("s", n, "us-test1", "10.1.0.0/20", "10.4.0.0/14"), subnet("x", other, "us-test1", "10.9.0.0/20")},
		"regions/us-test2": {subnet("s", n, "us-test2", "10.2.0.0/20")}}
	cl, groups := objects()
	cl.Spec.Networking.NetworkID = "host/n"
	cl.Spec.Networking.Subnets[0].ID, cl.Spec.Networking.Subnets[0].CIDR = "s", ""
	got, _ := lookUp(t, c, ClusterQuery(cl, groups))
	if d := cmp.Diff(map[string]facts.Network{"n": {CIDRs: []string{"10.1.0.0/20", "10.2.0.0/20", "10.4.0.0/14"}}}, got.Networks); d != "" {
		t.Errorf("networks (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]facts.Subnet{"s": {Network: "host/n", CIDR: "10.1.0.0/20"}}, got.Subnets); d != "" {
		t.Errorf("subnets (-want +got):\n%s", d)
	}
}

func TestAnOwnSubnetTakesNoRangeFromItsCluster(t *testing.T) {
	g, c := start(t)
	g.objects[of+"global/networks/a-example-com"] = compute.Network{Name: "a-example-com"}
	n := link + "p1/global/networks/a-example-com"
	g.aggregated[of+"aggregated/subnetworks"] = map[string][]any{"regions/us-test1": {
		subnet("us-test1-a-example-com", n, "us-test1", "10.0.48.0/20"), subnet("b", n, "us-test1", "10.0.16.0/20")}}
	cl, groups := objects()
	cl.Spec.Networking.Subnets[0].CIDR = ""
	got, _ := lookUp(t, c, ClusterQuery(cl, groups))
	if d := cmp.Diff(map[string]facts.Network{"a-example-com": {CIDRs: []string{"10.0.16.0/20"}}}, got.Networks); d != "" {
		t.Errorf("networks (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]facts.Subnet{"us-test1-a-example-com": {Network: "a-example-com", CIDR: "10.0.48.0/20"}}, got.Subnets); d != "" {
		t.Errorf("subnets (-want +got):\n%s", d)
	}
}

func TestANewClusterGetsFactsOfItsSharedSubnet(t *testing.T) {
	g, c := start(t)
	g.aggregated[of+"aggregated/subnetworks"] = map[string][]any{"regions/us-test1": {subnet("s", link+"p1/global/networks/n", "us-test1", "10.1.0.0/20")}}
	got, own := lookUp(t, c, NewClusterQuery(newcluster.Options{ClusterName: cluster, Zones: []string{"us-test1-a"}, SubnetIDs: []string{"s"}, Image: "mine"}, newcluster.World{}))
	if s := got.Subnets["s"]; s.Network != "n" || s.CIDR != "10.1.0.0/20" || own.Project != "p1" {
		t.Errorf("%+v, project %s", got.Subnets, own.Project)
	}
	if len(got.Networks) != 0 || got.DNSZones != nil || got.MachineTypes["e2-medium"].VCPU != 2 {
		t.Errorf("%+v", got)
	}
}

func TestMissingObjectsAreReported(t *testing.T) {
	_, c := start(t)
	cl, groups := objects()
	cl.Spec.CloudProvider.GCE.ServiceAccount = "x@p1.iam.gserviceaccount.com"
	cl.Spec.Networking.NetworkID, cl.Spec.Networking.Subnets[0].ID = "none", "none"
	s := &groups[0].Spec
	s.Image, s.MachineType, s.Zones = "cos-cloud/none", "e3-none", []string{"us-test1-a", "us-test1-z"}
	s.GuestAccelerators = []api.AcceleratorConfig{{AcceleratorType: "nvidia-none"}}
	more := groups[0].DeepCopy()
	more.Name, more.Spec = "more", api.InstanceGroupSpec{Role: api.RoleNode, MachineType: "a2-highgpu-1g", Zones: []string{"us-test1-a", "us-test1-b"}}
	_, err := Facts(t.Context(), c, nil, ClusterQuery(cl, append(groups, more)))
	var list diag.List
	if !errors.As(err, &list) {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list {
		got = append(got, f.Object+" "+f.Path+" "+f.Value+" "+f.Rule)
		if f.Remedy == "" {
			t.Errorf("%v has no remedy", f)
		}
	}
	if d := cmp.Diff([]string{
		"InstanceGroup/nodes spec.zones[1] us-test1-z zone-exists",
		"InstanceGroup/nodes spec.image cos-cloud/none image-exists",
		"InstanceGroup/nodes spec.machineType e3-none machine-type-exists",
		"InstanceGroup/nodes spec.guestAccelerators[0].acceleratorType nvidia-none accelerator-exists",
		"Cluster/a.example.com spec.networkID none network-exists",
		"Cluster/a.example.com spec.subnets[0].id none subnet-exists",
		"Cluster/a.example.com spec.cloudConfig.gceServiceAccount x@p1.iam.gserviceaccount.com account-exists",
		"InstanceGroup/more spec.machineType a2-highgpu-1g machine-type-offered",
	}, got); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

func TestProjectsAndRegionsThatDoNotExist(t *testing.T) {
	for _, tc := range []struct{ project, region, want string }{
		{"p2", "us-test1", "option:Project p2 project-exists"},
		{"p1", "us-test9", "option:Zones us-test9 region-exists"},
	} {
		_, c := start(t)
		o := newcluster.Options{ClusterName: cluster, Zones: []string{tc.region + "-a"}, Own: map[string]string{"project": tc.project}}
		_, err := Facts(t.Context(), c, nil, NewClusterQuery(o, newcluster.World{}))
		var list diag.List
		if !errors.As(err, &list) || len(list) != 1 || list[0].Path+" "+list[0].Value+" "+list[0].Rule != tc.want {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	_, c := start(t)
	c.Project = ""
	if _, err := Facts(t.Context(), c, nil, Query{}); err == nil || !strings.Contains(err.Error(), "no project is set") {
		t.Errorf("without a project: %v", err)
	}
}

func TestWhatIsNowhereIsNotAskedFor(t *testing.T) {
	g, c := start(t)
	c.Region = ""
	got, own := lookUp(t, c, NewClusterQuery(newcluster.Options{ClusterName: cluster, NodeSizes: []string{"none"}, Image: "none"}, newcluster.World{}))
	if own.Project != "p1" || len(got.Zones) > 0 || len(g.requests) != 1 {
		t.Errorf("%+v, after %v", got, g.requests)
	}
}

func TestALegacyNetworkIsRefused(t *testing.T) {
	g, c := start(t)
	g.objects[of+"global/networks/old"] = compute.Network{Name: "old", IPv4Range: "10.240.0.0/16"}
	g.aggregated[of+"aggregated/subnetworks"] = map[string][]any{"regions/us-test1": {}}
	cl, groups := objects()
	cl.Spec.Networking.NetworkID = "old"
	_, err := Facts(t.Context(), c, nil, ClusterQuery(cl, groups))
	if err == nil || !strings.Contains(err.Error(), "spec.networkID: is a legacy network") {
		t.Errorf("got %v", err)
	}
}

func TestAnAccountThatCannotBeReadIsAccepted(t *testing.T) {
	g, c := start(t)
	cl, groups := objects()
	const address = "nodes@other.iam.gserviceaccount.com"
	cl.Spec.CloudProvider.GCE.ServiceAccount = address
	g.fails["/v1/projects/-/serviceAccounts/"+address] = http.StatusForbidden
	lookUp(t, c, ClusterQuery(cl, groups))
}

func TestAnAnswerThatComesLaterIsAskedForAgain(t *testing.T) {
	g, c := start(t)
	g.fails[of+"regions/us-test1"] = http.StatusServiceUnavailable
	if got, _ := lookUp(t, c, ClusterQuery(objects())); len(got.Zones) != 2 {
		t.Errorf("the zones are %v", got.Zones)
	}
}

func TestADenialSaysWhatWasAsked(t *testing.T) {
	g, c := start(t)
	g.fails[of+"regions/us-test1"] = http.StatusForbidden
	_, err := Facts(t.Context(), c, nil, ClusterQuery(objects()))
	if err == nil || !strings.Contains(err.Error(), "look up facts in project p1, region us-test1: describe region us-test1: ") {
		t.Errorf("got %v", err)
	}
}

// memo is an in-memory cache; it is not safe for concurrent use.
type memo map[string][]byte

func (m memo) Get(key string) ([]byte, bool) { v, ok := m[key]; return v, ok }
func (m memo) Put(key string, v []byte)      { m[key] = v }

func TestMachineTypesAreRememberedOnceAllAreFound(t *testing.T) {
	g, c := start(t)
	m := memo{}
	cl, groups := objects()
	groups[0].Spec.MachineType = "e3-none"
	if _, err := Facts(t.Context(), c, m, ClusterQuery(cl, groups)); err == nil || len(m) != 0 {
		t.Errorf("%v; %d are remembered", err, len(m))
	}
	for range 2 {
		if _, err := Facts(t.Context(), c, m, ClusterQuery(objects())); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, r := range g.requests {
		if strings.HasSuffix(r, "/machineTypes") {
			asked++
		}
	}
	if asked != 6 { // three pages, twice
		t.Errorf("%d requests", asked)
	}
}

func TestAnAccountOfANewClusterIsAskedForByItsAddressAlone(t *testing.T) {
	for account, want := range map[string]string{"default": "", "": "", "x@p1.iam.gserviceaccount.com": "x@p1.iam.gserviceaccount.com"} {
		q := NewClusterQuery(newcluster.Options{ClusterName: cluster, Own: map[string]string{"gce-service-account": account}}, newcluster.World{})
		if q.ServiceAccount.Name != want {
			t.Errorf("%q: %+v", account, q.ServiceAccount)
		}
	}
}

func TestRangesAreAskedForWhereTheyAreNeededAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.NetworkingSpec)
		want   bool
	}{
		"all are there":               {func(*api.NetworkingSpec) {}, false},
		"the subnet has none":         {func(n *api.NetworkingSpec) { n.Subnets[0].CIDR = "" }, true},
		"a shared subnet has its own": {func(n *api.NetworkingSpec) { n.Subnets[0].CIDR, n.Subnets[0].ID = "", "s" }, false},
		"pods have none":              {func(n *api.NetworkingSpec) { n.Kindnet = &api.KindnetNetworkingSpec{} }, true},
	} {
		cl, groups := objects()
		c.change(&cl.Spec.Networking)
		if q := ClusterQuery(cl, groups); q.Ranges != c.want {
			t.Errorf("%s: %v", name, q.Ranges)
		}
	}
}
