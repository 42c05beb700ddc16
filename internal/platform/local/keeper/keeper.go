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

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/balance"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// every is how often the keeper looks, when nobody wakes it.
const every = 500 * time.Millisecond

// Files of the process. The process that holds the lock is the keeper.
func lockFile(s site.Site) string { return s.Path("keeper.lock") }
func pidFile(s site.Site) string  { return s.Path("keeper.pid") }

// standbyFile is locked by the process that becomes the keeper when the keeper dies.
func standbyFile(s site.Site) string { return s.Path("keeper.standby.lock") }

// LogFile is what the keeper tells.
func LogFile(s site.Site) string { return s.Path("keeper.log") }

func removeFiles(s site.Site) error {
	for _, f := range []string{lockFile(s), standbyFile(s), pidFile(s), LogFile(s)} {
		if err := Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// keeper is the state of one process; all else is in files.
type keeper struct {
	host    machine.Host
	log     *slog.Logger
	fronts  map[front]*balance.Server
	mirrors map[mirror]*http.Server
	pauses  map[string]pause // by group
	doomed  map[string]bool  // machines that are being removed, which was told
	ending  map[string]bool  // machines that were told to shut themselves down
	dismiss func()           // ends the process that stands by
}

func newKeeper(h machine.Host, log *slog.Logger) *keeper {
	return &keeper{host: h, log: log, fronts: map[front]*balance.Server{}, mirrors: map[mirror]*http.Server{},
		pauses: map[string]pause{}, doomed: map[string]bool{}, ending: map[string]bool{}, dismiss: func() {}}
}

// front is one port of one load balancer.
type front struct {
	balancer string
	address  string
	balance.Front
}

// pause is how long a group waits before it makes a machine again, because the
// last ones died young or could not be made.
type pause struct {
	begun, until time.Time
	wait         time.Duration // the next one
	why          error         // told meanwhile
}

const (
	young     = 20 * time.Second
	firstWait = time.Second
	longWait  = time.Minute
)

// loop keeps the cluster until ctx ends or the cluster has no network any more,
// when it removes the keeper's own files.
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
		if err == nil && !there {
			there, err = k.leave(ctx)
		}
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
			clear(k.pauses) // a new wish is tried at once
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
	// Load balancers come before groups: nobody is to wait for a dead machine while another is made.
	return true, errors.Join(k.keepMirrors(cidr), k.keepBalancers(cidr, now), k.keepGroups(ctx, cidr, groups, now))
}

// leave removes the keeper's files, unless the cluster has a network again. A
// keeper that came up while its cluster was deleted has made them after all else was gone.
func (k *keeper) leave(ctx context.Context) (there bool, err error) {
	unlock, err := k.host.Lock(ctx)
	if err != nil {
		return true, err
	}
	defer unlock()
	if _, err := os.Stat(NetworkFile(k.host.Site)); !errors.Is(err, os.ErrNotExist) {
		return true, err
	}
	k.dismiss() // before the file of the lock that it waits for is removed
	return false, removeFiles(k.host.Site)
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
	k.powerOff(machines)
	asked, err := k.asked(machines, now)
	if err != nil {
		return err
	}
	left, trouble := k.remove(ctx, machines, once(append(k.surplus(machines, wished, now), asked...)))
	for _, name := range slices.Sorted(maps.Keys(trouble)) { // the same text each time, which is told once
		err = errors.Join(err, trouble[name])
	}
	for _, g := range groups {
		made, gerr := k.fill(ctx, cidr, g, left, now)
		left = append(left, made...)
		err = errors.Join(err, gerr, tell(k.host.Site, site.Groups, g.Name, errors.Join(trouble[g.Name], gerr)))
	}
	return err
}

// remove removes machines, and returns those that are left, with what is in the
// way by group. One that cannot be removed counts as there: it may still run, and
// another in its place would have its address and its volumes.
func (k *keeper) remove(ctx context.Context, machines, surplus []machine.Machine) (left []machine.Machine, trouble map[string]error) {
	errs := make([]error, len(surplus))
	var work errgroup.Group
	for i, m := range surplus {
		if !k.doomed[m.Name] {
			k.log.Info("remove a machine", "machine", m.Name, "group", m.Group, "runs", m.Running)
		}
		work.Go(func() error {
			errs[i] = k.bury(ctx, m)
			return nil
		})
	}
	_ = work.Wait() // each has its own error
	gone := map[string]bool{}
	trouble = map[string]error{}
	for i, m := range surplus {
		gone[m.Name], k.doomed[m.Name] = errs[i] == nil, true
		if errs[i] == nil {
			delete(k.doomed, m.Name)
			delete(k.ending, m.Name)
		} else {
			trouble[m.Group] = errors.Join(trouble[m.Group], errs[i])
		}
	}
	return slices.DeleteFunc(slices.Clone(machines), func(m machine.Machine) bool { return gone[m.Name] }), trouble
}

// once drops the machines that a list has already: one may be in the way and asked for.
func once(list []machine.Machine) []machine.Machine {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(m machine.Machine) bool {
		before := seen[m.Name]
		seen[m.Name] = true
		return before
	})
}

// EndTime is how long a machine may take to shut itself down: a process may not heed that.
const EndTime = 30 * time.Second

// powerOff has the machines that are to end do so.
func (k *keeper) powerOff(machines []machine.Machine) {
	for _, m := range machines {
		if !m.Running || !m.Marks.Has(machine.MarkEnding) || k.ending[m.Name] {
			continue
		}
		k.ending[m.Name] = true
		k.log.Info("shut a machine down", "machine", m.Name, "group", m.Group)
		if err := k.host.PowerOff(m.Name); err != nil { // it is killed when its time is over
			k.log.Error("shut a machine down", "machine", m.Name, "error", err)
		}
	}
}

// surplus returns the machines to remove: unfinished ones, machines of unwanted groups, dead ones,
// those whose time to end is over, and of a group's excess machines first those of an older
// template, then the youngest. A machine that is detached or ends does not count for its group.
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
			if !k.doomed[m.Name] && !m.Marks.Has(machine.MarkEnding) {
				k.died(m, now)
			}
		case m.Marks.Has(machine.MarkEnding):
			if now.Sub(m.Marks[machine.MarkEnding]) > EndTime {
				out = append(out, m)
			}
		case m.Marks.Has(machine.MarkDetached):
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

// died makes a group wait when its machines die young.
func (k *keeper) died(m machine.Machine, now time.Time) {
	k.log.Warn("a machine is dead", "machine", m.Name, "group", m.Group, "age", now.Sub(m.Created).Round(time.Second))
	if now.Sub(m.Created) > young {
		delete(k.pauses, m.Group)
		return
	}
	k.delay(m.Group, now, fmt.Errorf("machines of the group %s die within %s; the last one's console is in %s", m.Group, young, LastLog(k.host.Site, m.Group)))
}

// delay makes a group wait, longer each time, however much went wrong at one time.
func (k *keeper) delay(group string, now time.Time, why error) {
	p := k.pauses[group]
	if p.begun.Equal(now) {
		return
	}
	k.pauses[group] = pause{begun: now, until: now.Add(p.wait), wait: min(max(firstWait, 2*p.wait), longWait), why: why}
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

// fill makes the machines that a group lacks. Once it lacks none and all have
// lived for some time, what went wrong before is forgotten.
func (k *keeper) fill(ctx context.Context, cidr netip.Prefix, g Group, machines []machine.Machine, now time.Time) ([]machine.Machine, error) {
	have, settled := 0, true
	for _, m := range machines {
		if m.Group == g.Name && !m.Marks.Has(machine.MarkDetached) {
			have++
			settled = settled && now.Sub(m.Created) > young
		}
	}
	if have >= g.Size && settled {
		delete(k.pauses, g.Name)
	}
	var made []machine.Machine
	for ; have < g.Size; have++ {
		if p := k.pauses[g.Name]; now.Before(p.until) {
			return made, p.why
		}
		all := slices.Concat(machines, made)
		address, err := network.Free(cidr, func(a netip.Addr) bool {
			return slices.ContainsFunc(all, func(m machine.Machine) bool { return m.Address == a.String() })
		})
		if err != nil {
			return made, err
		}
		s := machine.Spec{Name: g.Name + "-" + mark(), Group: g.Name, Image: g.Image, Address: address, Gateway: network.Gateway(cidr).Addr(),
			MemoryMiB: g.MemoryMiB, CPUs: g.CPUs, DiskGiB: g.DiskGiB, UserData: g.UserData, Folders: g.Folders, Template: g.Template(), Labels: g.Labels}
		k.log.Info("make a machine", "machine", s.Name, "address", address.Addr())
		if err := k.host.Create(ctx, s, now); err != nil {
			k.delay(g.Name, now, err)
			return made, err
		}
		made = append(made, machine.Machine{Name: s.Name, Group: g.Name, Address: address.Addr().String(), Created: now, Running: true})
	}
	return made, nil
}

// mark tells the machines of a group apart.
func mark() string { return strings.ToLower(rand.Text()[:5]) }

// keepBalancers opens and closes ports, and tells each its backends.
func (k *keeper) keepBalancers(cidr netip.Prefix, now time.Time) error {
	balancers, err := Balancers(k.host.Site)
	if err != nil {
		return err
	}
	machines, err := k.host.List()
	if err != nil {
		return err
	}
	wanted := map[front]backends{}
	var order []front // as listed, so that trouble has the same text each time
	for _, b := range balancers {
		serve := backendsOf(b, machines)
		for _, f := range b.Fronts {
			at := front{b.Name, network.Gateway(cidr).Addr().String(), f}
			wanted[at], order = serve, append(order, at)
		}
	}
	for f, s := range maps.Clone(k.fronts) {
		if _, ok := wanted[f]; !ok {
			s.Close()
			delete(k.fronts, f)
		}
	}
	trouble := map[string]error{} // by load balancer
	for _, f := range order {
		if k.fronts[f] == nil {
			l, err := listen(net.JoinHostPort(f.address, strconv.Itoa(f.Port)))
			if err != nil {
				trouble[f.balancer] = errors.Join(trouble[f.balancer], fmt.Errorf("load balancer %s: %w", f.balancer, err))
				continue
			}
			k.fronts[f] = balance.Serve(l, f.Front, k.log)
		}
		k.fronts[f].SetBackends(wanted[f].hosts, wanted[f].leaving...)
	}
	err = k.noteDrained(machines, now)
	for _, b := range balancers {
		err = errors.Join(err, trouble[b.Name], tell(k.host.Site, site.Balancers, b.Name, trouble[b.Name]))
	}
	return err
}

// backends are the addresses of the machines that serve, and of those among them that leave.
type backends struct{ hosts, leaving []string }

func backendsOf(b Balancer, machines []machine.Machine) backends {
	var out backends
	for _, m := range machines {
		if !m.Running || !slices.Contains(b.Groups, m.Group) {
			continue
		}
		out.hosts = append(out.hosts, m.Address)
		if m.Marks.Has(machine.MarkDeregistered) || m.Marks.Has(machine.MarkEnding) {
			out.leaving = append(out.leaving, m.Address)
		}
	}
	return out
}

// noteDrained marks the deregistered machines to which no load balancer is connected, nor
// was about to connect when they were.
func (k *keeper) noteDrained(machines []machine.Machine, now time.Time) (err error) {
	for _, m := range machines {
		if !m.Marks.Has(machine.MarkDeregistered) || m.Marks.Has(machine.MarkDrained) {
			continue
		}
		drained := now.Sub(m.Marks[machine.MarkDeregistered]) >= every
		for _, s := range k.fronts {
			drained = drained && s.Drained(m.Address)
		}
		if drained {
			err = errors.Join(err, k.host.Mark(m.Name, machine.MarkDrained))
		}
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
