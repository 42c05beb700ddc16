package node

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/hetznertest"
	"kops.local/kops/internal/platform/onmachine"
)

// mounter mounts nothing, and returns where it would mount.
type mounter struct{}

func (mounter) Mount(_ context.Context, v volume.Volume) (string, error) {
	return "/mnt/" + v.Folder, nil
}

func request(group string) volume.Request {
	return volume.Request{Cluster: "etcd", Port: "3996", Mounter: mounter{}, NameTag: hetznercloud.GroupLabel + "=" + group,
		Tags: []string{hetznercloud.ClusterLabel + "=" + hetznertest.Cluster, hetznercloud.VolumeLabel + "=main"}}
}

// source returns the volumes as a server sees them, on the project's clock.
func source(p *hetznertest.Project, w onmachine.World, group string) volume.Source {
	return volume.FromLabels(request(group), connectDisks(w, request(group), p.Clock.Sleep))
}

// take asks for the server's volume until it has it.
func take(t *testing.T, s volume.Source) volume.Disk {
	t.Helper()
	for range 5 {
		d, err := s.Disk(t.Context())
		if err == nil {
			return d
		}
		if !fault.Is(err, fault.NotYet) && !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
	}
	t.Fatal("it gets no volume")
	return volume.Disk{}
}

func TestAServerTakesTheVolumeOfItsGroup(t *testing.T) {
	p := hetznertest.Start(t)
	p.Volume("a", "other", "fsn1")
	p.Volume("b", "control-plane", "nbg1")
	mine := p.Volume("c", "control-plane", "fsn1")
	self := p.Server("self", "control-plane", nil)
	other := p.Server("other", "other", nil)
	if got := newVolumes(p.Machine("self"), request("control-plane")).Pause; got != pause {
		t.Errorf("the API is asked every %s", got)
	}
	s := source(p, p.Machine("self"), "control-plane")
	if _, err := s.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "is being attached") {
		t.Fatalf("at first: %v", err)
	}
	id := strconv.FormatInt(mine, 10)
	if d, err := s.Disk(t.Context()); err != nil || d != (volume.Disk{Dir: "/mnt/hcloud-" + id, Peer: "vol-" + id, Address: "10.0.0.2"}) {
		t.Errorf("then: %+v, %v", d, err)
	}
	if v := hetznertest.Get[hetznerapi.Volume](p, "volumes", mine); v.Server == nil || *v.Server != self {
		t.Errorf("the volume is %+v", v)
	}
	l := &volume.Labelled{Request: request("control-plane"), Connect: connectDisks(p.Machine("self"), request("control-plane"), p.Clock.Sleep)}
	all, err := l.Volumes(t.Context())
	i := slices.IndexFunc(all, func(v volume.Volume) bool { return v.Attached })
	if err != nil || len(all) != 3 || i < 0 || !slices.Equal(all[i].Devices, []string{"/dev/disk/by-id/scsi-0HC_Volume_" + id}) || all[i].Devices[0] != p.Servers()[0].Volumes[0].Device {
		t.Errorf("the volumes are %+v, %v", all, err)
	}
	take(t, source(p, p.Machine("other"), "other"))
	if found := discover(t, s); found != "10.0.0.2:3996 10.0.0.3:3996" {
		t.Errorf("the managers are at %s", found)
	}
	p.Volume("d", "late", "fsn1")
	p.Server("late", "late", nil)
	take(t, source(p, p.Machine("late"), "late"))
	if found := discover(t, s); found != "10.0.0.2:3996 10.0.0.3:3996 10.0.0.4:3996" {
		t.Errorf("with a new one, the managers are at %s", found)
	}
	if err := p.API.Delete(t.Context(), hetznerapi.Path("servers", other)); err != nil {
		t.Fatal(err)
	}
	if found := discover(t, s); found != "10.0.0.2:3996 10.0.0.4:3996" {
		t.Errorf("without the other one, the managers are at %s", found)
	}
}

func discover(t *testing.T, s volume.Source) string {
	t.Helper()
	found, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range found {
		out = append(out, f.Endpoint)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Two servers of a group race for one volume: one gets it, and the other one waits until the first is
// gone.
func TestServersRaceForAVolume(t *testing.T) {
	p := hetznertest.Start(t)
	p.Volume("v", "control-plane", "fsn1")
	var ids []int64
	var sources []*volume.Labelled
	for _, name := range []string{"first", "second"} {
		ids = append(ids, p.Server(name, "control-plane", nil))
		sources = append(sources, &volume.Labelled{Request: request("control-plane"), Connect: connectDisks(p.Machine(name), request("control-plane"), p.Clock.Sleep)})
	}
	errs, free := make([]error, 2), make([]volume.Volume, 2)
	for i, s := range sources {
		all, err := s.Volumes(t.Context())
		if err != nil || len(all) != 1 || !all[0].Free {
			t.Fatalf("the volumes are %+v, %v", all, err)
		}
		free[i] = all[0]
	}
	var work sync.WaitGroup
	for i, s := range sources {
		work.Go(func() { errs[i] = s.Attach(t.Context(), free[i]) })
	}
	work.Wait()
	winner := slices.Index(errs, nil)
	if winner < 0 || !fault.Is(errs[1-winner], fault.Conflict) || !strings.Contains(errs[1-winner].Error(), "attach the volume ") {
		t.Fatalf("of two servers, the volume is attached with %v", errs)
	}
	names := []string{"first", "second"}
	loser := source(p, p.Machine(names[1-winner]), "control-plane")
	if _, err := loser.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "is attached to "+strconv.FormatInt(ids[winner], 10)) {
		t.Errorf("the other one: %v", err)
	}
	if err := p.API.Delete(t.Context(), hetznerapi.Path("servers", ids[winner])); err != nil {
		t.Fatal(err)
	}
	take(t, loser)
}

// The token is read again for each request, so that a new one needs no restart.
func TestATokenIsReplaced(t *testing.T) {
	p := hetznertest.Start(t)
	p.Volume("v", "control-plane", "fsn1")
	p.Server("self", "control-plane", nil)
	w := p.Machine("self")
	file := filepath.Join(w.Root, paths.PlatformSecrets, hetznercloud.TokenVariable)
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := source(p, w, "control-plane")
	if _, err := s.Disk(t.Context()); !strings.Contains(err.Error(), "is being attached") {
		t.Fatal(err)
	}
	write("revoked")
	if _, err := s.Disk(t.Context()); !fault.Is(err, fault.Denied) {
		t.Errorf("with a revoked token: %v", err)
	}
	write(hetznertest.Token)
	take(t, s)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(fault.Remedy(err), "HCLOUD_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
}

// countingTransport counts requests.
type countingTransport struct {
	http.RoundTripper
	n int
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	return c.RoundTripper.RoundTrip(r)
}

// A project may send 3600 requests in an hour, for all of its machines: what a waiting server sends is
// bounded.
func TestFewRequests(t *testing.T) {
	p := hetznertest.Start(t)
	p.Volume("v", "control-plane", "fsn1")
	p.Server("stranger", "", map[string]any{"labels": map[string]string{}}) // no list of the cluster's servers has it
	p.Server("self", "control-plane", nil)
	take(t, source(p, p.Machine("stranger"), "control-plane"))
	w := p.Machine("self")
	count := &countingTransport{RoundTripper: w.HTTP.Transport}
	w.HTTP = &http.Client{Transport: count}
	s := source(p, w, "control-plane")
	for begun := p.Clock.Now(); p.Clock.Now().Sub(begun) < time.Minute; {
		if _, err := s.Disk(t.Context()); !fault.Is(err, fault.NotYet) {
			t.Fatal(err)
		}
		if err := p.Clock.Sleep(t.Context(), pause); err != nil {
			t.Fatal(err)
		}
	}
	if count.n > 30 {
		t.Errorf("a server sends %d requests in a minute", count.n)
	}
}
