// Package volume finds the disk of a member among those that a cloud keeps for an
// etcd cluster, attaches it to this machine, and mounts it. The disk outlives its
// machine, and determines which member the next one is.
//
// It must not know what is on a disk, nor to which cloud it belongs.
package volume

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

// Volume is one disk of an etcd cluster.
type Volume struct {
	// ID is the cloud's identifier.
	ID string
	// Peer is the name of the peer, and the member, whose data are on it.
	Peer string
	// Machine is the machine it is attached to; empty for none. Addresses are the addresses at
	// which others reach that machine.
	Machine   string
	Addresses []string
	// Attached is set if it is attached to this machine, and Free if it could be.
	Attached, Free bool
	// Devices are the paths that it may have on the machine that it is attached to.
	Devices []string
	// Folder is the name of its mount point; empty: master- and the ID.
	Folder string
}

// Cloud manages the volumes of one etcd cluster.
type Cloud interface {
	// Volumes lists them, wherever they are.
	Volumes(ctx context.Context) ([]Volume, error)
	// Attach begins to attach a volume to this machine; the class is fault.Conflict if
	// another machine was faster.
	Attach(ctx context.Context, v Volume) error
}

// Mounter mounts this machine's volume.
type Mounter interface {
	// Mount returns the folder of the volume's files. A mounted volume is not mounted
	// again. The class is fault.NotYet while the machine does not see it.
	Mount(ctx context.Context, v Volume) (dir string, err error)
}

// Take attaches and mounts this machine's volume, and returns it with the folder of its files. It
// does one step at a time: while the class is fault.NotYet or fault.Conflict the caller should
// call it again after a moment.
func Take(ctx context.Context, c Cloud, m Mounter) (v Volume, dir string, err error) {
	all, err := c.Volumes(ctx)
	if err != nil {
		return Volume{}, "", err
	}
	slices.SortFunc(all, func(a, b Volume) int { return cmp.Or(strings.Compare(a.Peer, b.Peer), strings.Compare(a.ID, b.ID)) })
	var here []string
	var mine, free *Volume
	for i, v := range all {
		switch {
		case v.Attached:
			here, mine = append(here, v.ID), &all[i]
		case v.Free && free == nil:
			free = &all[i]
		}
	}
	switch {
	case len(here) > 1:
		return Volume{}, "", fault.Wrap(fault.Permanent, fmt.Errorf("%d volumes of this etcd cluster are attached to this machine: %s; there must be one", len(here), strings.Join(here, ", ")),
			"detach the volumes that belong to other machines")
	case mine != nil:
		dir, err := m.Mount(ctx, *mine)
		return *mine, dir, err
	case free == nil:
		return Volume{}, "", fault.Wrap(fault.NotYet, fmt.Errorf("no volume of this etcd cluster is free for this machine: %s", list(all)),
			"terminate the machine that has the volume, or detach the volume")
	}
	if err := c.Attach(ctx, *free); err != nil {
		return Volume{}, "", err
	}
	return Volume{}, "", fault.New(fault.NotYet, "volume %s is being attached", free.ID)
}

// list describes the existing volumes.
func list(all []Volume) string {
	var out []string
	for _, v := range all {
		if v.Machine != "" {
			out = append(out, fmt.Sprintf("%s of %s is attached to %s", v.ID, v.Peer, v.Machine))
		} else {
			out = append(out, fmt.Sprintf("%s of %s is elsewhere, or not available", v.ID, v.Peer))
		}
	}
	if len(out) == 0 {
		return "there is none"
	}
	return strings.Join(out, ", ")
}

// Machines finds the managers of an etcd cluster at the machines that its volumes
// are attached to. All listen on one port.
type Machines struct {
	Cloud Cloud
	Port  string
}

// Discover returns the managers that may be there, including other programs' managers.
func (m Machines) Discover(ctx context.Context) ([]etcd.Sighting, error) {
	all, err := m.Cloud.Volumes(ctx)
	if err != nil {
		return nil, fmt.Errorf("find other managers by their volumes: %w", err)
	}
	var out []etcd.Sighting
	for _, v := range all {
		for _, a := range v.Addresses {
			out = append(out, etcd.Sighting{ID: v.Peer, Endpoint: net.JoinHostPort(a, m.Port)})
		}
	}
	return out, nil
}
