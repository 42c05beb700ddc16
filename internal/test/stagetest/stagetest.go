// Package stagetest is a stage in memory for tests of plays: it records what a play asks of this
// host, and rejects what a host would reject. Real machines are created in e2e/rehearsal.
//
// It must not know any platform.
package stagetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
)

// Host stands in for this host. Tests read its fields, and change Dead and Broken, between passes.
type Host struct {
	// Machines are by name. Dead are those that do not run. Broken are machines that neither start
	// nor end, and disks that cannot be detached or
	// removed.
	Machines     map[string]rehearsal.Machine
	Dead, Broken map[string]bool
	// Disks are by name; Machine is empty if a disk is not attached.
	Disks     map[string]rehearsal.Disk
	Gateways  []netip.Prefix
	Ranges    map[string]string
	Checked   map[netip.Addr][]netip.Prefix
	Balancers []rehearsal.Balancer

	mu sync.Mutex
}

// New returns a host without machines.
func New() *Host {
	return &Host{Machines: map[string]rehearsal.Machine{}, Dead: map[string]bool{}, Broken: map[string]bool{}, Disks: map[string]rehearsal.Disk{}}
}

// Stage returns what a play may use of the host.
func (h *Host) Stage() rehearsal.Stage {
	return rehearsal.Stage{Machines: h, Disks: h, Network: h, Log: slog.New(slog.DiscardHandler)}
}

// runs reports whether a machine runs. The caller holds the lock.
func (h *Host) runs(name string) bool {
	_, ok := h.Machines[name]
	return ok && !h.Dead[name]
}

// Launch implements rehearsal.Machines.
func (h *Host) Launch(_ context.Context, m rehearsal.Machine) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Broken[m.Name] {
		return errors.New("the machine " + m.Name + " does not start")
	}
	if _, ok := h.Machines[m.Name]; ok {
		return fault.New(fault.Conflict, "the machine %s exists", m.Name)
	}
	for _, other := range h.Machines {
		if other.Address.Addr() == m.Address.Addr() {
			return fault.New(fault.Conflict, "the machine %s has the address %s", other.Name, m.Address.Addr())
		}
	}
	if !slices.ContainsFunc(h.Gateways, func(p netip.Prefix) bool { return p.Addr() == m.Gateway }) {
		return fmt.Errorf("the gateway %s is not an address of this host: %v", m.Gateway, h.Gateways)
	}
	h.Machines[m.Name] = m
	return nil
}

// List implements rehearsal.Machines.
func (h *Host) List() (map[string]bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]bool{}
	for n := range h.Machines {
		out[n] = h.runs(n)
	}
	return out, nil
}

// Destroy implements rehearsal.Machines.
func (h *Host) Destroy(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Broken[name] {
		return errors.New("the machine " + name + " does not end")
	}
	delete(h.Machines, name)
	delete(h.Dead, name)
	return nil
}

// Console implements rehearsal.Machines.
func (h *Host) Console(name string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.Machines[name]; !ok {
		return nil, errors.New("there is no machine " + name)
	}
	return []byte("the console of " + name), nil
}

// Plug implements rehearsal.Disks.
func (h *Host) Plug(_ context.Context, d rehearsal.Disk) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.runs(d.Machine) {
		return errors.New("the machine " + d.Machine + " does not run")
	}
	if at := h.Disks[d.Name].Machine; at != d.Machine && h.runs(at) {
		return fault.New(fault.Conflict, "the disk %s is attached to the machine %s", d.Name, at)
	}
	h.Disks[d.Name] = d
	return nil
}

// Unplug implements rehearsal.Disks.
func (h *Host) Unplug(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.Disks[name]
	if h.Broken[name] {
		return fault.New(fault.Conflict, "the disk %s is in use", name)
	}
	if d.Machine = ""; ok {
		h.Disks[name] = d
	}
	return nil
}

// Discard implements rehearsal.Disks.
func (h *Host) Discard(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.Disks[name].Machine; h.runs(at) || h.Broken[name] {
		return fault.New(fault.Conflict, "the disk %s is attached to the machine %s", name, at)
	}
	delete(h.Disks, name)
	return nil
}

// Addresses implements rehearsal.Network.
func (h *Host) Addresses(list []netip.Prefix) error {
	h.Gateways = slices.Clone(list)
	return nil
}

// Routes implements rehearsal.Network.
func (h *Host) Routes(to map[string]string) error {
	h.Ranges = maps.Clone(to)
	return nil
}

// Check implements rehearsal.Network.
func (h *Host) Check(machines map[netip.Addr][]netip.Prefix) error {
	h.Checked = maps.Clone(machines)
	return nil
}

// Balance implements rehearsal.Network.
func (h *Host) Balance(list []rehearsal.Balancer) error {
	h.Balancers = slices.Clone(list)
	return nil
}
