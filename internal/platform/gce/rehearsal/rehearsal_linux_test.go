package rehearsal

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/platform/gce/vtpm/softtpm"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/test/servers"
	"kops.local/kops/internal/test/stagetest"
)

const zone = Region + "-b"

// testPlay is a play with real emulators on a host in memory.
type testPlay struct {
	*testing.T
	*play
	host *stagetest.Host
	as   *rehearsal.Play
}

func newPlay(t *testing.T) *testPlay {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: networks are made by root")
	}
	if _, err := exec.LookPath(softtpm.Program); err != nil {
		servers.SkipMissing(t, err.Error())
	}
	dir := t.TempDir()
	if err := os.Symlink(servers.Tool(t, "fakegcs", "github.com/fsouza/fake-gcs-server"), filepath.Join(dir, program)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	h := stagetest.New()
	own, err := start(t.Context(), h.Stage(), rehearsal.Options{Dir: dir, Stores: []string{"state"}})
	if err != nil {
		t.Fatal(err)
	}
	p := &testPlay{T: t, play: own, host: h, as: own.asPlay()}
	t.Cleanup(func() {
		if err := p.as.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// ok fails the test with an error of any of the calls whose results it gets.
func (p *testPlay) ok(results ...any) {
	p.Helper()
	for _, r := range results {
		if err, is := r.(error); is && err != nil {
			p.Fatal(err)
		}
	}
}

// pass reconciles twice, because an operation is done by the next request.
func (p *testPlay) pass() {
	p.Helper()
	p.ok(p.sync(p.Context()))
	p.ok(p.sync(p.Context()))
}

// group creates a network, and a group of one instance in it with a public address and a range for
// pods. It returns the instance's name.
func (p *testPlay) group() string {
	p.Helper()
	c := p.api.Compute
	p.ok(c.Networks.Insert(Project, &compute.Network{Name: "n", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do())
	p.ok(c.Subnetworks.Insert(Project, Region, &compute.Subnetwork{Name: "s", Network: "global/networks/n", IpCidrRange: "10.0.16.0/20",
		SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{{RangeName: "pods", IpCidrRange: "10.4.0.0/14"}}}).Do())
	p.ok(c.TargetPools.Insert(Project, Region, &compute.TargetPool{Name: "p"}).Do())
	p.ok(c.InstanceTemplates.Insert(Project, &compute.InstanceTemplate{Name: "t", Properties: &compute.InstanceProperties{MachineType: "e2-medium",
		Disks: []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: "projects/debian-cloud/global/images/debian-12", DiskType: "pd-standard", DiskSizeGb: 64}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/n", Subnetwork: "regions/" + Region + "/subnetworks/s", AccessConfigs: []*compute.AccessConfig{{Type: "ONE_TO_ONE_NAT"}},
			AliasIpRanges: []*compute.AliasIpRange{{SubnetworkRangeName: "pods", IpCidrRange: "/24"}}}},
		Metadata: &compute.Metadata{Items: []*compute.MetadataItems{{Key: "user-data", Value: new("#!/bin/sh\necho hello\n")}}}}}).Do())
	p.ok(c.InstanceGroupManagers.Insert(Project, zone, &compute.InstanceGroupManager{Name: "m", BaseInstanceName: "nodes", InstanceTemplate: "global/instanceTemplates/t", TargetSize: 1,
		TargetPools: []string{"regions/" + Region + "/targetPools/p"}}).Do())
	p.ok(c.ForwardingRules.Insert(Project, Region, &compute.ForwardingRule{Name: "api", IPProtocol: "TCP", PortRange: "443-443", Target: "regions/" + Region + "/targetPools/p"}).Do())
	p.pass()
	names := slices.Collect(maps.Keys(p.host.Machines))
	if len(names) != 1 {
		p.Fatalf("the machines are %v", names)
	}
	return names[0]
}

func (p *testPlay) lookup(name string) string {
	lines, _ := p.as.Lookup(name, "A")
	_, address, _ := strings.Cut(strings.Join(lines, ""), " IN A ")
	return address
}

// tpms returns the folders of TPMs.
func (p *testPlay) tpms() []string {
	p.Helper()
	all, err := os.ReadDir(filepath.Join(p.dir, "tpm"))
	p.ok(err)
	var out []string
	for _, e := range all {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestAnInstanceIsPlayed(t *testing.T) {
	p := newPlay(t)
	name := p.group()
	m := p.host.Machines[name]
	if _, err := os.Stat(m.Shows["/dev/tpm0"]); err != nil || m.UserData != "#!/bin/sh\necho hello\n" || m.MemoryMiB != 4096 || m.Gateway.String() != "10.0.16.1" || m.Address.Bits() != 20 {
		t.Errorf("the machine is %+v, %v", m, err)
	}
	at := m.Address.Addr()
	i, err := p.api.Compute.Instances.Get(Project, zone, name).Do()
	p.ok(err)
	alias := i.NetworkInterfaces[0].AliasIpRanges[0].IpCidrRange
	if own := p.host.Checked[at]; p.host.Ranges[alias] != at.String() || !slices.Equal(own, []netip.Prefix{netip.PrefixFrom(at, 32), netip.MustParsePrefix(alias)}) {
		t.Errorf("the routes are %v; the instance may use %v", p.host.Ranges, own)
	}
	if len(p.host.Balancers) != 1 || len(p.host.Balancers[0].Fronts) != 1 || p.host.Balancers[0].Fronts[0].Port != 443 || !slices.Equal(p.host.Balancers[0].Fronts[0].Hosts, []string{at.String()}) {
		t.Errorf("the load balancers are %+v", p.host.Balancers)
	}
	external := i.NetworkInterfaces[0].AccessConfigs[0].NatIP
	p.ok(p.api.DNS.Changes.Create(Project, "example", &dns.Change{Additions: []*dns.ResourceRecordSet{{Name: "a.example.com.", Type: "A", Ttl: 60, Rrdatas: []string{external}}}}).Do())
	p.pass()
	for host, want := range map[string]string{name + "." + zone + ".c." + Project + ".internal": at.String(), "metadata.google.internal": "169.254.169.254", "a.example.com": at.String(), "b.example.com": ""} {
		if got := p.lookup(host); got != want {
			t.Errorf("%s is %q, want %q", host, got, want)
		}
	}
	ask := func(from netip.Addr) (int, string) {
		r, w := httptest.NewRequest(http.MethodGet, "http://metadata.google.internal/computeMetadata/v1/instance/name", nil), httptest.NewRecorder()
		r.Header.Set("Metadata-Flavor", "Google")
		r.RemoteAddr = netip.AddrPortFrom(from, 40000).String()
		p.as.Plain[metadataAddress].ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, text := ask(at); code != http.StatusOK || text != name {
		t.Errorf("the metadata: %d %s", code, text)
	}
	if code, _ := ask(at.Next()); code != http.StatusNotFound {
		t.Errorf("the metadata of nobody: %d", code)
	}
}

// TestAnInstanceThatDied checks that its group creates it again, with another TPM.
func TestAnInstanceThatDied(t *testing.T) {
	p := newPlay(t)
	name := p.group()
	before := p.tpms()
	old := p.desired.machines()[name].ID
	p.host.Dead[name] = true
	p.pass()
	p.pass()
	if now := p.desired.machines()[name]; now.ID == old || now.ID == 0 || p.host.Dead[name] || len(p.host.Machines) != 1 {
		t.Errorf("the instance %d is %+v; the machines are %v", old, now, p.host.Machines)
	}
	if after := p.tpms(); len(before) != 1 || len(after) != 1 || after[0] == before[0] {
		t.Errorf("TPMs were %v, and are %v", before, after)
	}
}

func TestADiskOutlivesItsInstance(t *testing.T) {
	p := newPlay(t)
	name := p.group()
	p.ok(p.api.Compute.Disks.Insert(Project, zone, &compute.Disk{Name: "d", SizeGb: 20}).Do())
	attach := func() {
		t.Helper()
		p.ok(p.api.Compute.Instances.AttachDisk(Project, zone, name, &compute.AttachedDisk{Source: "zones/" + zone + "/disks/d", DeviceName: "x"}).Do())
		p.pass()
		if d := p.host.Disks["d"]; d.Machine != name || d.GiB != 20 || !slices.Equal(d.Paths, []string{"/dev/d", "/dev/disk/by-id/google-x"}) {
			t.Fatalf("the disk is %+v", d)
		}
	}
	attach()
	p.ok(p.api.Compute.Instances.DetachDisk(Project, zone, name, "x").Do())
	p.pass()
	if d, ok := p.host.Disks["d"]; !ok || d.Machine != "" {
		t.Errorf("the detached disk is %+v", d)
	}
	attach()
	p.ok(p.api.Compute.InstanceGroupManagers.Resize(Project, zone, "m", 0).Do())
	p.pass()
	if d, ok := p.host.Disks["d"]; !ok || d.Machine != "" || len(p.host.Machines) > 0 {
		t.Errorf("after its instance the disk is %+v; the machines are %v", d, p.host.Machines)
	}
	p.ok(p.api.Compute.Disks.Delete(Project, zone, "d").Do())
	p.pass()
	if len(p.host.Disks) > 0 {
		t.Errorf("left are %v", p.host.Disks)
	}
}
