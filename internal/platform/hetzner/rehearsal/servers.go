package rehearsal

import (
	"context"
	"encoding/base64"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/rehearsal"
)

// desiredState records the servers that the emulator runs, and the play creates their machines later,
// because the emulator is blocked while it calls.
type desiredState struct {
	onChange func()

	mu     sync.Mutex
	want   map[int64]launch // by the server's number
	starts int
}

// launch is a server that runs, and the number of its start.
type launch struct {
	emulator.Server
	start int
}

var _ emulator.Machines = (*desiredState)(nil)

func (w *desiredState) update(change func()) error {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.onChange()
	return nil
}

// Start records that a machine is wanted, which boots again.
func (w *desiredState) Start(_ context.Context, s emulator.Server) error {
	return w.update(func() {
		w.starts++
		w.want[s.ID] = launch{s, w.starts}
	})
}

// Plug records that a machine's volumes or networks have changed.
func (w *desiredState) Plug(_ context.Context, s emulator.Server) error {
	return w.update(func() {
		if l, runs := w.want[s.ID]; runs {
			w.want[s.ID] = launch{s, l.start}
		}
	})
}

// Stop removes a machine. When the server starts again, it gets a new disk.
func (w *desiredState) Stop(ctx context.Context, s emulator.Server) error { return w.Delete(ctx, s) }

// Delete records that a machine is no longer wanted.
func (w *desiredState) Delete(_ context.Context, s emulator.Server) error {
	return w.update(func() { delete(w.want, s.ID) })
}

// machines returns the servers that run now.
func (w *desiredState) machines() []launch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.want), func(a, b launch) int { return a.start - b.start })
}

// sync makes this host match the emulator's state once.
func (p *play) sync(ctx context.Context) error {
	servers := p.desired.machines() // what the API reports of them is at least as recent
	networks, err := hetznerapi.List[network](ctx, p.api, "networks", nil)
	if err != nil {
		return err
	}
	volumes, err := hetznerapi.List[hetznerapi.Volume](ctx, p.api, "volumes", nil)
	if err != nil {
		return err
	}
	balancers, err := hetznerapi.List[loadBalancer](ctx, p.api, "load_balancers", nil)
	if err != nil {
		return err
	}
	w := rehearsal.Wanted{Routes: routes(networks, servers), Balancers: wantedBalancers(balancers, servers)}
	attached := map[int64]rehearsal.Disk{}
	for _, s := range servers {
		if len(s.Networks) == 0 {
			continue // this host reaches servers only in their networks
		}
		w.Machines = append(w.Machines, p.wantedMachine(s, w.Routes))
		for _, v := range s.Volumes {
			attached[v.ID] = rehearsal.Disk{Machine: s.Name, Paths: []string{v.Device}}
		}
	}
	for _, v := range volumes {
		d := attached[v.ID]
		d.Name, d.GiB = "volume-"+strconv.FormatInt(v.ID, 10), v.Size
		w.Disks = append(w.Disks, d)
	}
	return p.room.Reconcile(ctx, w)
}

// wantedMachine returns the machine of a server. It sends and receives only with its own addresses and
// those that its network routes to it.
func (p *play) wantedMachine(s launch, routes map[string]string) rehearsal.WantedMachine {
	in := s.Networks[0]
	m := rehearsal.WantedMachine{Name: s.Name, ID: strconv.Itoa(s.start), Address: in.Address, Network: in.Range, Public: s.Public, Own: []netip.Prefix{netip.PrefixFrom(in.Address, 32)},
		Boot: func(context.Context) (rehearsal.Boot, error) {
			p.log.Info("a server starts", "server", s.Name, "type", s.Type, "address", in.Address)
			return rehearsal.Boot{UserData: bootScript(s.UserData), MemoryMiB: s.MemoryMiB}, nil
		},
		Died: func(ctx context.Context) error {
			p.emulator.Died(s.ID)
			return p.desired.Delete(ctx, s.Server)
		}}
	for to, name := range routes {
		if r, err := netip.ParsePrefix(to); err == nil && name == s.Name {
			m.Own = append(m.Own, r)
		}
	}
	return m
}

// bootScript returns what an image runs at boot: user data, which cloud-init decodes if they are base64.
func bootScript(userData string) string {
	if raw, err := base64.StdEncoding.DecodeString(userData); err == nil {
		return string(raw)
	}
	return userData
}

// network is a network with its routes.
type network struct {
	Routes []struct {
		Destination string `json:"destination"`
		Gateway     string `json:"gateway"`
	} `json:"routes"`
}

// routes returns the servers behind which ranges are.
func routes(networks []network, servers []launch) map[string]string {
	at := map[string]string{}
	for _, s := range servers {
		for _, n := range s.Networks {
			at[n.Address.String()] = s.Name
		}
	}
	out := map[string]string{}
	for _, n := range networks {
		for _, r := range n.Routes {
			if name, runs := at[r.Gateway]; runs {
				out[r.Destination] = name
			}
		}
	}
	return out
}

// loadBalancer is a load balancer with the servers that its label selectors select.
type loadBalancer struct {
	hetznerapi.LoadBalancer
	Targets []target `json:"targets"`
}

type target struct {
	Server  *hetznerapi.Object `json:"server"`
	Targets []target           `json:"targets"`
}

// servers returns the numbers of a target's servers.
func (t target) servers() []int64 {
	if t.Server != nil {
		return []int64{t.Server.ID}
	}
	var out []int64
	for _, x := range t.Targets {
		out = append(out, x.servers()...)
	}
	return out
}

// wantedBalancers returns load balancers, one for each address: the public one, and those in networks.
func wantedBalancers(all []loadBalancer, servers []launch) []rehearsal.WantedBalancer {
	names := map[int64]string{}
	for _, s := range servers {
		names[s.ID] = s.Name
	}
	var out []rehearsal.WantedBalancer
	for _, b := range all {
		var behind []string
		for _, t := range b.Targets {
			for _, id := range t.servers() {
				if name, runs := names[id]; runs && !slices.Contains(behind, name) {
					behind = append(behind, name)
				}
			}
		}
		var fronts []rehearsal.WantedFront
		for _, s := range b.Services {
			fronts = append(fronts, rehearsal.WantedFront{Port: s.ListenPort, Target: s.DestinationPort, Machines: behind})
		}
		var addresses []string
		if b.PublicNet.Enabled {
			addresses = append(addresses, b.PublicNet.IPv4.IP)
		}
		for _, n := range b.PrivateNet {
			addresses = append(addresses, n.IP)
		}
		for _, text := range addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				out = append(out, rehearsal.WantedBalancer{Name: b.Name + " at " + text, Address: a, Fronts: fronts})
			}
		}
	}
	return out
}
