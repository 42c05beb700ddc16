package keeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/clouds/local/balance"
	"kops.local/kops/internal/clouds/local/machine"
	"kops.local/kops/internal/clouds/local/network"
	"kops.local/kops/internal/clouds/local/site"
	"kops.local/kops/internal/fault"
)

// every is how often the keeper looks, when nobody wakes it.
const every = 500 * time.Millisecond

// keeper is the state of one process; all else is in files.
type keeper struct {
	host    machine.Host
	log     *slog.Logger
	fronts  map[front]*balance.Server
	mirrors map[mirror]*http.Server
	pauses  map[string]pause // by group
}

// front is one port of one load balancer.
type front struct {
	balancer string
	address  string
	balance.Front
}

// pause is how long a group waits before it makes a machine again, because the
// last ones died young.
type pause struct {
	until time.Time
	wait  time.Duration
}

const (
	young     = 20 * time.Second
	firstWait = time.Second
	longWait  = time.Minute
)

// loop keeps the cluster until ctx ends or the cluster has no network any more.
func (k *keeper) loop(ctx context.Context, wake <-chan os.Signal) error {
	defer func() {
		for _, s := range k.fronts {
			s.Close()
		}
		for _, s := range k.mirrors {
			s.Close() // nothing is left to serve
		}
	}()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := ""
	for {
		there, err := k.pass(ctx, time.Now())
		if ctx.Err() != nil || err == nil && !there {
			return nil
		}
		if text := fmt.Sprint(err); err != nil && text != last {
			k.log.Error("keep the cluster", "error", err)
			last = text
		} else if err == nil {
			last = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
	}
}

// pass makes the cluster as wished, once. It reports whether the cluster is still there.
func (k *keeper) pass(ctx context.Context, now time.Time) (there bool, err error) {
	if _, err := os.Stat(NetworkFile(k.host.Site)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	unlock, err := k.host.Lock(ctx)
	if err != nil {
		return true, err
	}
	defer unlock()
	var n Network
	if there, err := site.ReadJSON(NetworkFile(k.host.Site), &n); err != nil || !there {
		return there, err
	}
	cidr, err := network.Check(n.CIDR)
	if err != nil {
		return true, err
	}
	groups, err := Groups(k.host.Site)
	if err != nil {
		return true, err
	}
	return true, errors.Join(k.keepMirrors(cidr), k.keepGroups(ctx, cidr, groups, now), k.keepBalancers(cidr))
}

func (k *keeper) keepGroups(ctx context.Context, cidr netip.Prefix, groups []Group, now time.Time) error {
	machines, err := k.host.List()
	if err != nil {
		return err
	}
	wished := map[string]Group{}
	for _, g := range groups {
		wished[g.Name] = g
	}
	surplus := k.surplus(machines, wished, now)
	var work errgroup.Group
	for _, m := range surplus {
		k.log.Info("remove a machine", "machine", m.Name, "group", m.Group, "runs", m.Running)
		work.Go(func() error { return k.bury(ctx, m) })
	}
	err = work.Wait()
	left := slices.DeleteFunc(machines, func(m machine.Machine) bool {
		return slices.ContainsFunc(surplus, func(s machine.Machine) bool { return s.Name == m.Name })
	})
	for _, g := range groups {
		made, gerr := k.fill(ctx, cidr, g, left, now)
		left = append(left, made...)
		err = errors.Join(err, gerr, tell(k.host.Site, site.Groups, g.Name, gerr))
	}
	return err
}

// surplus are the machines that should not be: those never finished, those of
// groups that are not wished, the dead, and of what a group has too many first
// those of an older template, then the youngest.
func (k *keeper) surplus(machines []machine.Machine, wished map[string]Group, now time.Time) []machine.Machine {
	var out []machine.Machine
	alive := map[string][]machine.Machine{}
	for _, m := range machines {
		_, known := wished[m.Group]
		switch {
		case m.Created.IsZero(), m.Group != "" && !known:
			out = append(out, m)
		case m.Group == "":
		case !m.Running:
			out = append(out, m)
			k.died(m, now)
		default:
			alive[m.Group] = append(alive[m.Group], m)
		}
	}
	for name, list := range alive {
		g := wished[name]
		if len(list) <= g.Size {
			continue
		}
		template := g.Template()
		slices.SortFunc(list, func(a, b machine.Machine) int {
			if (a.Template == template) != (b.Template == template) {
				if a.Template == template {
					return -1
				}
				return 1
			}
			return a.Created.Compare(b.Created)
		})
		out = append(out, list[g.Size:]...)
	}
	return out
}

// died makes a group wait when its machines die young, longer each time.
func (k *keeper) died(m machine.Machine, now time.Time) {
	k.log.Warn("a machine is dead", "machine", m.Name, "group", m.Group, "age", now.Sub(m.Created).Round(time.Second))
	if now.Sub(m.Created) > young {
		delete(k.pauses, m.Group)
		return
	}
	p := k.pauses[m.Group]
	p.until, p.wait = now.Add(p.wait), min(max(firstWait, 2*p.wait), longWait)
	k.pauses[m.Group] = p
}

// bury removes a machine, and keeps what a dead one wrote on its console.
func (k *keeper) bury(ctx context.Context, m machine.Machine) error {
	if log, err := k.host.Log(m.Name); err == nil && !m.Running && m.Group != "" {
		if err := site.Write(LastLog(k.host.Site, m.Group), log, 0o600); err != nil {
			return err
		}
	}
	return k.host.Delete(ctx, m.Name)
}

// LastLog is the file with what the last machine of a group that died wrote on its console.
func LastLog(s site.Site, group string) string { return s.Path(site.Groups, "."+group+".log") }

// fill makes the machines that a group lacks.
func (k *keeper) fill(ctx context.Context, cidr netip.Prefix, g Group, machines []machine.Machine, now time.Time) ([]machine.Machine, error) {
	have := 0
	for _, m := range machines {
		if m.Group == g.Name {
			have++
		}
	}
	var made []machine.Machine
	for ; have < g.Size; have++ {
		if p := k.pauses[g.Name]; now.Before(p.until) {
			return made, fmt.Errorf("machines of the group %s die within %s; the last one's console is in %s", g.Name, young, LastLog(k.host.Site, g.Name))
		}
		all := slices.Concat(machines, made)
		address, err := network.Free(cidr, func(a netip.Addr) bool {
			return slices.ContainsFunc(all, func(m machine.Machine) bool { return m.Address == a.String() })
		})
		if err != nil {
			return made, err
		}
		s := machine.Spec{Name: g.Name + "-" + mark(), Group: g.Name, Image: g.Image, Address: address, Gateway: network.Gateway(cidr).Addr(),
			MemoryMiB: g.MemoryMiB, CPUs: g.CPUs, UserData: g.UserData, Folders: g.Folders, Template: g.Template(), Labels: g.Labels}
		k.log.Info("make a machine", "machine", s.Name, "address", address.Addr())
		if err := k.host.Create(ctx, s, now); err != nil {
			return made, err
		}
		made = append(made, machine.Machine{Name: s.Name, Group: g.Name, Address: address.Addr().String(), Running: true})
	}
	return made, nil
}

// mark tells the machines of a group apart.
func mark() string { return strings.ToLower(rand.Text()[:5]) }

// keepBalancers opens and closes ports, and tells each its backends.
func (k *keeper) keepBalancers(cidr netip.Prefix) error {
	balancers, err := Balancers(k.host.Site)
	if err != nil {
		return err
	}
	machines, err := k.host.List()
	if err != nil {
		return err
	}
	wanted := map[front][]string{}
	for _, b := range balancers {
		hosts := []string{}
		for _, m := range machines {
			if m.Running && slices.Contains(b.Groups, m.Group) {
				hosts = append(hosts, m.Address)
			}
		}
		for _, f := range b.Fronts {
			wanted[front{b.Name, network.Gateway(cidr).Addr().String(), f}] = hosts
		}
	}
	for f, s := range maps.Clone(k.fronts) {
		if _, ok := wanted[f]; !ok {
			s.Close()
			delete(k.fronts, f)
		}
	}
	trouble := map[string]error{} // by load balancer
	for f, hosts := range wanted {
		if k.fronts[f] == nil {
			l, err := listen(net.JoinHostPort(f.address, strconv.Itoa(f.Port)))
			if err != nil {
				trouble[f.balancer] = errors.Join(trouble[f.balancer], fmt.Errorf("load balancer %s: %w", f.balancer, err))
				continue
			}
			k.fronts[f] = balance.Serve(l, f.Front, k.log)
		}
		k.fronts[f].SetBackends(hosts)
	}
	for _, b := range balancers {
		err = errors.Join(err, trouble[b.Name], tell(k.host.Site, site.Balancers, b.Name, trouble[b.Name]))
	}
	return err
}

// listen opens a port of this host.
func listen(address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(address) // it was made of a host and a port
		err = fault.Wrap(fault.Permanent, err, "end the program of this host that listens on the port "+port+", which this names: ss -ltnp; the keeper then takes it by itself")
	}
	return l, err
}
