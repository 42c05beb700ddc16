package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// Reconciler makes this host match what an emulated platform wants: it launches and ends machines,
// attaches disks, and sets up the network. It resolves names, and identifies callers, accordingly.
type Reconciler struct {
	stage Stage
	// disks maps the disks that were ever attached to the machines to which they are, or to "".
	disks map[string]string

	mu       sync.Mutex
	launched map[string]launched   // by the name of the machine
	fronts   map[string]netip.Addr // addresses that load balancers got here, by name
	names    Names
	callers  map[netip.Addr]string // machines' names
}

// launched is a machine that the reconciler has launched.
type launched struct {
	id  string
	end func() error
}

// NewReconciler returns a reconciler. Machines on the stage that it has not launched are replaced.
func NewReconciler(stage Stage) *Reconciler {
	return &Reconciler{stage: stage, disks: map[string]string{}, launched: map[string]launched{}, fronts: map[string]netip.Addr{}}
}

// Reconcile makes this host match once. One call may run at a time.
func (r *Reconciler) Reconcile(ctx context.Context, w Wanted) error {
	machines := map[string]WantedMachine{}
	for _, m := range w.Machines {
		machines[m.Name] = m
	}
	balancers := r.publish(w, machines)
	gateways, checked := map[netip.Prefix]bool{}, map[netip.Addr][]netip.Prefix{}
	for _, m := range w.Machines {
		gateways[gateway(m.Network)] = true
		if len(m.Own) > 0 {
			checked[m.Address] = m.Own
		}
	}
	routes := map[string]string{}
	for to, name := range w.Routes {
		if m, ok := machines[name]; ok {
			routes[to] = m.Address.String()
		}
	}
	network := r.stage.Network
	if err := network.Addresses(slices.SortedFunc(maps.Keys(gateways), netip.Prefix.Compare)); err != nil {
		return err
	}
	if err := network.Check(checked); err != nil {
		return err
	}
	return errors.Join(r.reconcileMachines(ctx, machines), r.reconcileDisks(ctx, w.Disks, machines), network.Routes(routes), network.Balance(balancers))
}

// reconcileMachines ends machines that are not wanted, tells the emulator which of the others have
// died, and then launches missing ones, which may have the addresses of those that ended.
func (r *Reconciler) reconcileMachines(ctx context.Context, want map[string]WantedMachine) error {
	existing, err := r.stage.Machines.List()
	if err != nil {
		return err
	}
	var unwanted []string
	var dead, missing []WantedMachine
	for name, runs := range existing {
		switch m, ok := want[name]; {
		case !ok || !r.isLaunched(m):
			unwanted = append(unwanted, name)
		case !runs:
			dead = append(dead, m)
		}
	}
	errs := []error{each(unwanted, func(name string) error { return r.end(ctx, name) })}
	if len(unwanted) > 0 {
		if existing, err = r.stage.Machines.List(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	for _, m := range want {
		if _, is := existing[m.Name]; !is {
			missing = append(missing, m)
		}
	}
	errs = append(errs, each(missing, func(m WantedMachine) error { return r.launch(ctx, m) }))
	for _, m := range dead {
		r.stage.Log.Warn("a machine has died", "machine", m.Name)
		if err := m.Died(ctx); err != nil {
			errs = append(errs, fmt.Errorf("report that the machine %s has died: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// each calls a function for all items at once, and returns when all calls have returned.
func each[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var work sync.WaitGroup
	for i, x := range items {
		work.Go(func() { errs[i] = do(x) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// isLaunched reports whether the reconciler has launched this machine, and not an earlier one with
// its name.
func (r *Reconciler) isLaunched(m WantedMachine) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.launched[m.Name]
	return ok && have.id == m.ID
}

func (r *Reconciler) launch(ctx context.Context, m WantedMachine) error {
	if err := r.forget(m.Name); err != nil { // it disappeared from the stage
		return err
	}
	b, err := m.Boot(ctx)
	if err != nil {
		return fmt.Errorf("start the machine %s: %w", m.Name, err)
	}
	err = r.stage.Machines.Launch(ctx, Machine{Name: m.Name, Address: netip.PrefixFrom(m.Address, m.Network.Bits()), Gateway: gateway(m.Network).Addr(),
		UserData: b.UserData, MemoryMiB: b.MemoryMiB, Shows: b.Shows})
	r.mu.Lock()
	r.launched[m.Name] = launched{m.ID, b.End}
	r.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("start the machine %s: %w", m.Name, err), r.forget(m.Name))
	}
	return nil
}

// end ends a machine.
func (r *Reconciler) end(ctx context.Context, name string) error {
	if err := r.stage.Machines.Destroy(ctx, name); err != nil {
		return fmt.Errorf("end the machine %s: %w", name, err)
	}
	return r.forget(name)
}

// forget removes what was made for a machine that has ended.
func (r *Reconciler) forget(name string) error {
	r.mu.Lock()
	m := r.launched[name]
	delete(r.launched, name)
	r.mu.Unlock()
	if m.end == nil {
		return nil
	}
	return m.end()
}

// reconcileDisks detaches disks from machines to which they are no longer attached, discards those
// that no longer exist, and attaches the others to machines that run.
func (r *Reconciler) reconcileDisks(ctx context.Context, disks []Disk, want map[string]WantedMachine) error {
	runs, err := r.stage.Machines.List()
	if err != nil {
		return err
	}
	var errs []error
	exist := map[string]Disk{}
	for _, d := range disks {
		if first, twice := exist[d.Name]; twice {
			errs = append(errs, fmt.Errorf("attach the disk %s to the machine %s: it is attached to %s", d.Name, d.Machine, first.Machine))
			continue
		}
		if !r.isLaunched(want[d.Machine]) {
			d.Machine = ""
		}
		exist[d.Name] = d
	}
	for name, at := range r.disks {
		d, ok := exist[name]
		if at != "" && at != d.Machine {
			if err := r.stage.Disks.Unplug(ctx, name); err != nil {
				errs = append(errs, err)
				continue
			}
			r.disks[name] = ""
		}
		if !ok {
			if err := r.stage.Disks.Discard(ctx, name); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(r.disks, name)
		}
	}
	for name, d := range exist {
		if at := r.disks[name]; d.Machine != "" && runs[d.Machine] && (at == "" || at == d.Machine) {
			r.disks[name] = d.Machine
			errs = append(errs, r.stage.Disks.Plug(ctx, d))
		}
	}
	return errors.Join(errs...)
}

// Close removes what was made for machines, except the machines themselves, which the stage removes.
func (r *Reconciler) Close() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.launched)) {
		errs = append(errs, r.forget(name))
	}
	return errors.Join(errs...)
}
