package lookup

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ranges"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Facts queries Hetzner. If something that the query names does not exist, the error is a diag.List with
// one finding for each ask. now is the time, for machine types that are no longer offered.
func Facts(ctx context.Context, c *hetznerapi.Client, now time.Time, q Query) (*facts.Facts, error) {
	a := &resolver{Client: c, query: q, now: now, facts: &facts.Cloud{Images: map[string]facts.Image{}, MachineTypes: map[string]facts.MachineType{}}, own: spec.Facts{Deprecated: map[string]string{}}}
	if len(q.Zones) > 0 {
		a.facts.Region = hetznercloud.Zone(q.Zones[0].Name)
	}
	lookups := []func(context.Context) error{a.locations, a.machineTypes, a.network}
	for _, name := range asks.Names(q.Images) {
		lookups = append(lookups, func(ctx context.Context) error { return a.image(ctx, name) })
	}
	if err := platform.AskAll(ctx, lookups); err != nil {
		return nil, fmt.Errorf("look up facts in Hetzner Cloud: %w", err)
	}
	return asks.Answer(api.CloudHetzner, a.facts, a.own, a.missing())
}

// resolver is the state of one lookup. Questions run concurrently; each sets its own fields, and shared
// ones under the lock.
type resolver struct {
	*hetznerapi.Client
	query Query
	now   time.Time
	facts *facts.Cloud
	own   spec.Facts
	lock  sync.Mutex
	known []string // all locations
	wrong string   // what is wrong with the shared network
}

// locations reads the locations, of which those in the cluster's network zone are its zones.
func (a *resolver) locations(ctx context.Context) error {
	all, err := hetznerapi.List[hetznerapi.Location](ctx, a.Client, "locations", nil)
	if err != nil {
		return err
	}
	a.known, a.facts.Zones = nil, nil
	for _, l := range all {
		a.known = append(a.known, l.Name)
		if l.NetworkZone == a.facts.Region {
			a.facts.Zones = append(a.facts.Zones, l.Name)
		}
	}
	slices.Sort(a.facts.Zones)
	return nil
}

// architecture converts an architecture to the facts' form.
func architecture(text string) string {
	if text == "arm" {
		return facts.ArchARM
	}
	return facts.ArchX86
}

// machineTypes reads machine types, and where they are offered.
func (a *resolver) machineTypes(ctx context.Context) error {
	all, err := hetznerapi.List[hetznerapi.ServerType](ctx, a.Client, "server_types", nil)
	if err != nil {
		return err
	}
	wanted := append(asks.Names(a.query.MachineTypes), a.query.Candidates...)
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, t := range all {
		if !slices.Contains(wanted, t.Name) {
			continue
		}
		kept := facts.MachineType{VCPU: t.Cores, MemoryMiB: int(t.Memory * 1024), Architectures: []string{architecture(t.Architecture)}}
		for _, l := range t.Locations {
			d := l.Deprecation
			if d != nil && !a.now.Before(d.UnavailableAfter) {
				continue
			}
			kept.Zones = append(kept.Zones, l.Name)
			if d != nil && slices.ContainsFunc(a.query.MachineTypes, func(r asks.Reference) bool { return r.Name == t.Name && slices.Contains(r.Zones, l.Name) }) {
				a.own.Deprecated[t.Name] = "no new server can have it after " + d.UnavailableAfter.UTC().Format(time.DateOnly)
			}
		}
		slices.Sort(kept.Zones)
		if len(kept.Zones) > 0 { // otherwise, it is a thing of the past
			a.facts.MachineTypes[t.Name] = kept
		}
	}
	return nil
}

// image reads an image: a system image, which has a name, for one or both architectures, or a snapshot.
func (a *resolver) image(ctx context.Context, name string) error {
	found, err := hetznerapi.List[hetznerapi.Image](ctx, a.Client, "images", url.Values{"name": {name}, "include_deprecated": {"true"}})
	if id, parseErr := strconv.ParseInt(name, 10, 64); err == nil && len(found) == 0 && parseErr == nil {
		var one hetznerapi.Image
		if one, err = hetznerapi.Get[hetznerapi.Image](ctx, a.Client, hetznerapi.Path("images", id)); err == nil {
			found = []hetznerapi.Image{one}
		}
		err = fault.IgnoreGone(err)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	i := facts.Image{ID: hetznercloud.ImageName(found[0].ID, found[0].Name), Architecture: architecture(found[0].Architecture)}
	if len(found) > 1 { // which machines get follows from their type
		i.Architecture = ""
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.facts.Images[name] = i
	if found[0].Deprecated != nil {
		a.own.Deprecated[name] = "it will be removed"
	}
	return nil
}

// network reads the shared network, and finds the address of the load balancer, or a free one for it.
func (a *resolver) network(ctx context.Context) error {
	a.wrong, a.facts.Networks = "", nil
	var shared *hetznerapi.Network
	if name := a.query.Network.Name; name != "" {
		var err error
		if shared, err = hetznerapi.FindNetwork(ctx, a.Client, name); err != nil {
			return err
		}
		if shared == nil {
			a.wrong = "there is no such network in the project"
			return nil
		}
		shared.Subnets = slices.DeleteFunc(shared.Subnets, func(s hetznerapi.Subnet) bool { return s.Type != "cloud" || s.NetworkZone != a.facts.Region })
		if len(shared.Subnets) == 0 && a.facts.Region != "" {
			a.wrong = "the network has no subnet for servers in the network zone " + a.facts.Region
		}
		a.own.NetworkNumber = strconv.FormatInt(shared.ID, 10)
		a.facts.Networks = map[string]facts.Network{name: {CIDRs: []string{shared.IPRange}}}
	}
	if a.query.Cluster == "" {
		return nil
	}
	balancers, err := hetznerapi.List[hetznerapi.LoadBalancer](ctx, a.Client, "load_balancers", nil)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, b := range balancers {
		for _, n := range b.PrivateNet {
			if b.Name == hetznercloud.BalancerName(a.query.Cluster) {
				a.own.APIAddress = n.IP
				return nil
			}
			used[n.IP] = used[n.IP] || shared != nil && n.Network == shared.ID
		}
	}
	if shared == nil { // the model chooses one in the cluster's own network
		return nil
	}
	return a.freeAddress(ctx, shared, used)
}

// freeAddress finds an address in a shared network that neither a load balancer, in used, nor a server
// has.
func (a *resolver) freeAddress(ctx context.Context, shared *hetznerapi.Network, used map[string]bool) error {
	servers, err := hetznerapi.List[hetznerapi.Server](ctx, a.Client, "servers", nil)
	if err != nil {
		return err
	}
	for _, s := range servers {
		for _, n := range s.PrivateNet {
			used[n.IP] = used[n.IP] || n.Network == shared.ID
		}
	}
	for _, s := range shared.Subnets {
		r, err := netip.ParsePrefix(s.IPRange)
		if err != nil {
			continue
		}
		for at := ranges.Last(r).Prev(); r.Contains(at); at = at.Prev() {
			if !used[at.String()] {
				a.own.APIAddress = at.String()
				return nil
			}
		}
	}
	return nil
}

// missing reports what the query names and does not exist.
func (a *resolver) missing() diag.List {
	out := asks.Missing(a.query.Zones, func(name string) bool { return slices.Contains(a.known, name) }, "hetzner-locations", "there is no such location", "use one of "+diag.Or(a.known))
	out = append(out, asks.Missing(a.query.Images, asks.Has(a.facts.Images), "hetzner-image", "there is no such image", "use the name of a system image, or the number of a snapshot of the project (hcloud image list)")...)
	out = append(out, asks.Missing(a.query.MachineTypes, asks.Has(a.facts.MachineTypes), "machine-type-exists", "there is no such machine type", "use another one (hcloud server-type list)")...)
	out = append(out, asks.NotOffered(a.query.MachineTypes, a.facts.MachineTypes, "choose another machine type, or a location among ")...)
	return append(out, asks.Missing([]asks.Reference{a.query.Network}, func(string) bool { return a.wrong == "" }, "hetzner-network", a.wrong,
		"use the name or the number of another network (hcloud network list), or add a subnet (hcloud network add-subnet)")...)
}
