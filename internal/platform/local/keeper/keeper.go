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

// reconcilePeriod is how often the keeper checks the cluster if it is not woken.
const reconcilePeriod = 500 * time.Millisecond

// lockFile is locked by the process that is the keeper.
func lockFile(s site.Site) string { return s.Path("keeper.lock") }
func pidFile(s site.Site) string  { return s.Path("keeper.pid") }

// standbyFile is locked by the process that becomes the keeper when the keeper dies.
func standbyFile(s site.Site) string { return s.Path("keeper.standby.lock") }

// LogFile is the keeper's log.
func LogFile(s site.Site) string { return s.Path("keeper.log") }

func removeFiles(s site.Site) error {
	for _, f := range []string{lockFile(s), standbyFile(s), pidFile(s), LogFile(s)} {
		if err := Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// keeper is the state of one process; everything else is in files.
type keeper struct {
	host        machine.Host
	log         *slog.Logger
	fronts      map[front]*balance.Server
	mirrors     map[mirror]*http.Server
	backoffs    map[string]backoff // by group
	removing    map[string]bool    // machines being removed; already logged
	ending      map[string]bool    // machines that were asked to shut down
	stopStandby func()             // stops the standby process
}

func newKeeper(h machine.Host, log *slog.Logger) *keeper {
	return &keeper{host: h, log: log, fronts: map[front]*balance.Server{}, mirrors: map[mirror]*http.Server{},
		backoffs: map[string]backoff{}, removing: map[string]bool{}, ending: map[string]bool{}, stopStandby: func() {}}
}

// front is one port of one load balancer.
type front struct {
	balancer string
	address  string
	balance.Front
}

// backoff is how long a group waits before it creates another machine, because the last
// ones died young or could not be created.
type backoff struct {
	since, until time.Time
	wait         time.Duration // the next one
	why          error         // reported meanwhile
}

const (
	youngAge   = 20 * time.Second
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// loop keeps the cluster until ctx is done, or until the cluster has no network, in
// which case it removes the keeper's own files.
func (k *keeper) loop(ctx context.Context, wake <-chan os.Signal) error {
	defer func() {
		for _, s := range k.fronts {
			s.Close()
		}
		for _, s := range k.mirrors {
			s.Close() // nothing is left to serve
		}
	}()
	ticker := time.NewTicker(reconcilePeriod)
	defer ticker.Stop()
	last := ""
	for {
		exists, err := k.reconcile(ctx, time.Now())
		if err == nil && !exists {
			exists, err = k.removeOwnFiles(ctx)
		}
		if ctx.Err() != nil || err == nil && !exists {
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
			clear(k.backoffs) // new desired state is tried at once
		case <-ticker.C:
		}
	}
}

// reconcile brings the cluster to its desired state, once. It reports whether the cluster still exists.
func (k *keeper) reconcile(ctx context.Context, now time.Time) (exists bool, err error) {
	if _, err := os.Stat(NetworkFile(k.host.Site)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	unlock, err := k.host.Lock(ctx)
	if err != nil {
		return true, err
	}
	defer unlock()
	var n Network
	if exists, err := site.ReadJSON(NetworkFile(k.host.Site), &n); err != nil || !exists {
		return exists, err
	}
	cidr, err := network.Check(n.CIDR)
	if err != nil {
		return true, err
	}
	groups, err := Groups(k.host.Site)
	if err != nil {
		return true, err
	}
	// Load balancers come before groups: clients must not wait for a dead machine while another is
	// created.
	return true, errors.Join(k.reconcileMirrors(cidr), k.reconcileBalancers(cidr, now), k.reconcileGroups(ctx, cidr, groups, now))
}

// removeOwnFiles removes the keeper's files, unless the cluster has a network again. A keeper that
// started while its cluster was deleted has created them after everything else was removed.
func (k *keeper) removeOwnFiles(ctx context.Context) (exists bool, err error) {
	unlock, err := k.host.Lock(ctx)
	if err != nil {
		return true, err
	}
	defer unlock()
	if _, err := os.Stat(NetworkFile(k.host.Site)); !errors.Is(err, os.ErrNotExist) {
		return true, err
	}
	k.stopStandby() // before the lock file that it waits for is removed
	return false, removeFiles(k.host.Site)
}

func (k *keeper) reconcileGroups(ctx context.Context, cidr netip.Prefix, groups []Group, now time.Time) error {
	machines, err := k.host.List()
	if err != nil {
		return err
	}
	desired := map[string]Group{}
	for _, g := range groups {
		desired[g.Name] = g
	}
	k.powerOffEnding(machines)
	requested, err := k.takeReplacements(machines, now)
	if err != nil {
		return err
	}
	left, trouble := k.remove(ctx, machines, deduplicate(append(k.surplusMachines(machines, desired, now), requested...)))
	for _, name := range slices.Sorted(maps.Keys(trouble)) { // in a fixed order, so that the same trouble is logged once
		err = errors.Join(err, trouble[name])
	}
	for _, g := range groups {
		made, gerr := k.createMissing(ctx, cidr, g, left, now)
		left = append(left, made...)
		err = errors.Join(err, gerr, writeTrouble(k.host.Site, site.Groups, g.Name, errors.Join(trouble[g.Name], gerr)))
	}
	return err
}

// remove removes machines, and returns those that are left, with the errors by group.
// A machine that cannot be removed counts as existing: it may still run, and a
// replacement would have the same address and volumes.
func (k *keeper) remove(ctx context.Context, machines, surplus []machine.Machine) (left []machine.Machine, trouble map[string]error) {
	errs := make([]error, len(surplus))
	var work errgroup.Group
	for i, m := range surplus {
		if !k.removing[m.Name] {
			k.log.Info("remove a machine", "machine", m.Name, "group", m.Group, "runs", m.Running)
		}
		work.Go(func() error {
			errs[i] = k.removeKeepingLog(ctx, m)
			return nil
		})
	}
	_ = work.Wait() // errors are kept per machine
	gone := map[string]bool{}
	trouble = map[string]error{}
	for i, m := range surplus {
		gone[m.Name], k.removing[m.Name] = errs[i] == nil, true
		if errs[i] == nil {
			delete(k.removing, m.Name)
			delete(k.ending, m.Name)
		} else {
			trouble[m.Group] = errors.Join(trouble[m.Group], errs[i])
		}
	}
	return slices.DeleteFunc(slices.Clone(machines), func(m machine.Machine) bool { return gone[m.Name] }), trouble
}

// deduplicate removes duplicates: a machine may be both surplus and requested for replacement.
func deduplicate(list []machine.Machine) []machine.Machine {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(m machine.Machine) bool {
		before := seen[m.Name]
		seen[m.Name] = true
		return before
	})
}

// EndTime is how long a machine may take to shut down; a process may ignore the request.
const EndTime = 30 * time.Second

// powerOffEnding asks the machines that are to end to shut down.
func (k *keeper) powerOffEnding(machines []machine.Machine) {
	for _, m := range machines {
		if !m.Running || !m.Marks.Contains(machine.MarkEnding) || k.ending[m.Name] {
			continue
		}
		k.ending[m.Name] = true
		k.log.Info("shut a machine down", "machine", m.Name, "group", m.Group)
		if err := k.host.PowerOff(m.Name); err != nil { // it is killed when its time is up
			k.log.Error("shut a machine down", "machine", m.Name, "error", err)
		}
	}
}

// surplusMachines returns the machines to remove: unfinished ones, machines of unwanted groups, dead ones,
// those whose time to shut down is up, and of a group's excess machines first those of an older
// template, then the youngest. A detached or ending machine does not count for its group.
func (k *keeper) surplusMachines(machines []machine.Machine, wished map[string]Group, now time.Time) []machine.Machine {
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
			if !k.removing[m.Name] && !m.Marks.Contains(machine.MarkEnding) {
				k.noteDeath(m, now)
			}
		case m.Marks.Contains(machine.MarkEnding):
			if now.Sub(m.Marks[machine.MarkEnding]) > EndTime {
				out = append(out, m)
			}
		case m.Marks.Contains(machine.MarkDetached):
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

// noteDeath delays a group whose machine died young.
func (k *keeper) noteDeath(m machine.Machine, now time.Time) {
	k.log.Warn("a machine is dead", "machine", m.Name, "group", m.Group, "age", now.Sub(m.Created).Round(time.Second))
	if now.Sub(m.Created) > youngAge {
		delete(k.backoffs, m.Group)
		return
	}
	k.backOff(m.Group, now, fmt.Errorf("machines of the group %s die within %s; the last one's console is in %s", m.Group, youngAge, LastLog(k.host.Site, m.Group)))
}

// backOff makes a group wait, longer each time; failures at the same time count once.
func (k *keeper) backOff(group string, now time.Time, why error) {
	p := k.backoffs[group]
	if p.since.Equal(now) {
		return
	}
	k.backoffs[group] = backoff{since: now, until: now.Add(p.wait), wait: min(max(minBackoff, 2*p.wait), maxBackoff), why: why}
}

// removeKeepingLog removes a machine, but keeps a dead machine's console log.
func (k *keeper) removeKeepingLog(ctx context.Context, m machine.Machine) error {
	if log, err := k.host.Log(m.Name); err == nil && !m.Running && m.Group != "" {
		if err := site.Write(LastLog(k.host.Site, m.Group), log, 0o600); err != nil {
			return err
		}
	}
	return k.host.Delete(ctx, m.Name)
}

// LastLog returns the file with the console log of the group's machine that died last.
func LastLog(s site.Site, group string) string { return s.Path(site.Groups, "."+group+".log") }

// createMissing creates a group's missing machines. Once none is missing and all have lived
// for some time, earlier failures are forgotten.
func (k *keeper) createMissing(ctx context.Context, cidr netip.Prefix, g Group, machines []machine.Machine, now time.Time) ([]machine.Machine, error) {
	have, settled := 0, true
	for _, m := range machines {
		if m.Group == g.Name && !m.Marks.Contains(machine.MarkDetached) {
			have++
			settled = settled && now.Sub(m.Created) > youngAge
		}
	}
	if have >= g.Size && settled {
		delete(k.backoffs, g.Name)
	}
	var made []machine.Machine
	for ; have < g.Size; have++ {
		if p := k.backoffs[g.Name]; now.Before(p.until) {
			return made, p.why
		}
		all := slices.Concat(machines, made)
		address, err := network.FreeAddress(cidr, func(a netip.Addr) bool {
			return slices.ContainsFunc(all, func(m machine.Machine) bool { return m.Address == a.String() })
		})
		if err != nil {
			return made, err
		}
		s := machine.Spec{Name: g.Name + "-" + randomSuffix(), Group: g.Name, Image: g.Image, Address: address, Gateway: network.Gateway(cidr).Addr(),
			MemoryMiB: g.MemoryMiB, CPUs: g.CPUs, DiskGiB: g.DiskGiB, MinDiskGiB: g.MinDiskGiB, UserData: g.UserData, Folders: g.Folders, Template: g.Template(), Labels: g.Labels}
		k.log.Info("make a machine", "machine", s.Name, "address", address.Addr())
		if err := k.host.Create(ctx, s, now); err != nil {
			k.backOff(g.Name, now, err)
			return made, err
		}
		made = append(made, machine.Machine{Name: s.Name, Group: g.Name, Address: address.Addr().String(), Created: now, Running: true})
	}
	return made, nil
}

// randomSuffix returns a random suffix that distinguishes the machines of a group.
func randomSuffix() string { return strings.ToLower(rand.Text()[:5]) }

// reconcileBalancers opens and closes ports, and sets each load balancer's backends.
func (k *keeper) reconcileBalancers(cidr netip.Prefix, now time.Time) error {
	balancers, err := Balancers(k.host.Site)
	if err != nil {
		return err
	}
	machines, err := k.host.List()
	if err != nil {
		return err
	}
	wanted := map[front]backends{}
	var order []front // in a fixed order, so that trouble always has the same text
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
	err = k.markDrained(machines, now)
	for _, b := range balancers {
		err = errors.Join(err, trouble[b.Name], writeTrouble(k.host.Site, site.Balancers, b.Name, trouble[b.Name]))
	}
	return err
}

// backends are the addresses of the machines that serve; leaving are those among them that
// are being drained.
type backends struct{ hosts, leaving []string }

func backendsOf(b Balancer, machines []machine.Machine) backends {
	var out backends
	for _, m := range machines {
		if !m.Running || !slices.Contains(b.Groups, m.Group) {
			continue
		}
		out.hosts = append(out.hosts, m.Address)
		if m.Marks.Contains(machine.MarkDeregistered) || m.Marks.Contains(machine.MarkEnding) {
			out.leaving = append(out.leaving, m.Address)
		}
	}
	return out
}

// markDrained marks the deregistered machines to which no load balancer has a connection,
// or was about to open one when they were deregistered.
func (k *keeper) markDrained(machines []machine.Machine, now time.Time) (err error) {
	for _, m := range machines {
		if !m.Marks.Contains(machine.MarkDeregistered) || m.Marks.Contains(machine.MarkDrained) {
			continue
		}
		drained := now.Sub(m.Marks[machine.MarkDeregistered]) >= reconcilePeriod
		for _, s := range k.fronts {
			drained = drained && s.Drained(m.Address)
		}
		if drained {
			err = errors.Join(err, k.host.Mark(m.Name, machine.MarkDrained))
		}
	}
	return err
}

// listen listens on a port of this host.
func listen(address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(address) // it was built from a host and a port
		err = fault.Wrap(fault.Permanent, err, "stop the program on this host that listens on port "+port+" (find it with: ss -ltnp); kops then takes over the port by itself")
	}
	return l, err
}
