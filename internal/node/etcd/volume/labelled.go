package volume

import (
	"context"
	"slices"
	"strings"
	"sync"

	"kops.local/kops/internal/engine/fault"
)

// Place is where a disk or a machine is. Only disks in a machine's location can be attached to it.
type Place struct {
	// Machine is the machine's name in the cloud; for a disk, the machine it is attached to, or empty.
	// Location is a zone, or what the cloud calls it.
	Machine, Location string
}

// LabelledDisk is a disk in a cloud's list.
type LabelledDisk struct {
	ID string
	Place
	// Name is the value of the label Request.NameTag: the name of the member whose data are on the
	// disk, and after a slash those of all members. The peer's name is Request.Cluster, a dash and the
	// member's name, unless Peer is set.
	Name, Peer string
	// IsLeaving reports that the disk is being detached from its machine; IsAvailable that it can be
	// attached if it has no machine.
	IsLeaving, IsAvailable bool
	// Devices and Folder are Volume's.
	Devices []string
	Folder  string
}

// Disks are the disks of one etcd cluster, as a cloud shows them to one of its machines.
type Disks interface {
	// List returns the disks with the request's Tags, wherever they are.
	List(ctx context.Context) ([]LabelledDisk, error)
	// Locate returns the addresses of the machines to which disks are attached, by the ID of the disk,
	// each machine's primary address first. A machine that is gone has none.
	Locate(ctx context.Context, attached []LabelledDisk) (map[string][]string, error)
	// Attach begins to attach a disk to this machine, or has attached it when it returns; the class is
	// fault.Conflict if another machine was faster.
	Attach(ctx context.Context, id string) error
}

// FromLabels is the source of disks that a cloud lists with labels, and attaches to machines. connect
// is Labelled's Connect.
func FromLabels(r Request, connect func(context.Context) (Disks, Place, error)) Source {
	return Attached(&Labelled{Request: r, Connect: connect}, r)
}

// Labelled finds the disks of one etcd cluster by their labels.
type Labelled struct {
	Request Request
	// Connect identifies this machine, and returns the cloud's disks. It is called until it succeeds,
	// and then no more.
	Connect func(context.Context) (Disks, Place, error)

	mu    sync.Mutex
	disks Disks
	here  Place
	// pending is the ID of the disk that was attached last, while no list shows that; it has been looked
	// for so often.
	pending string
	looks   int
}

// maxLooks is how many lists may not show where the disk is that was attached last. Some clouds show it
// neither as free nor as attached for a while; a machine that took another one would have two.
const maxLooks = 30

var _ Cloud = (*Labelled)(nil)

// connect calls Connect unless it has succeeded.
func (l *Labelled) connect(ctx context.Context) (Disks, Place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disks != nil {
		return l.disks, l.here, nil
	}
	disks, here, err := l.Connect(ctx)
	if err != nil {
		return nil, Place{}, err
	}
	l.disks, l.here = disks, here
	return disks, here, nil
}

// Volumes implements Cloud.
func (l *Labelled) Volumes(ctx context.Context) ([]Volume, error) {
	if len(l.Request.Tags) == 0 || l.Request.NameTag == "" { // would match every disk of the account
		return nil, fault.New(fault.Permanent, "disks are found by --volume-tag and named by --volume-name-tag")
	}
	disks, here, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	all, err := disks.List(ctx)
	if err != nil {
		return nil, err
	}
	var at map[string][]string
	if attached := slices.DeleteFunc(slices.Clone(all), func(d LabelledDisk) bool { return d.Machine == "" }); len(attached) > 0 {
		if at, err = disks.Locate(ctx, attached); err != nil {
			return nil, err
		}
	}
	pending := l.look(all)
	var out []Volume
	for _, d := range all {
		v := l.volume(d, here)
		v.Addresses, v.Free = at[d.ID], v.Free && (pending == "" || pending == d.ID)
		out = append(out, v)
	}
	return out, nil
}

// look returns the ID of the disk that is being attached to this machine; "" if there is none, or if it has
// a machine.
func (l *Labelled) look(all []LabelledDisk) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	if l.looks > maxLooks || !slices.ContainsFunc(all, func(d LabelledDisk) bool { return d.ID == l.pending && d.Machine == "" }) {
		l.pending = ""
	}
	return l.pending
}

func (l *Labelled) volume(d LabelledDisk, here Place) Volume {
	v := Volume{ID: d.ID, Peer: d.Peer, Machine: d.Machine, Devices: d.Devices, Folder: d.Folder}
	if member, _, _ := strings.Cut(d.Name, "/"); v.Peer == "" && member != "" {
		v.Peer = l.Request.Cluster + "-" + member
	}
	v.Attached = d.Place == here && !d.IsLeaving
	v.Free = d.Machine == "" && d.IsAvailable && d.Location == here.Location
	return v
}

// Attach implements Cloud.
func (l *Labelled) Attach(ctx context.Context, v Volume) error {
	disks, _, err := l.connect(ctx)
	if err != nil {
		return err
	}
	if err := disks.Attach(ctx, v.ID); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.looks = v.ID, 0
	return nil
}
