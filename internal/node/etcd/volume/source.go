package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

// Request says which disk is looked for. Paths are as the program sees them.
type Request struct {
	// Cluster is the name of the etcd cluster, such as etcd-events.
	Cluster string
	// Tags are what the volumes of the cluster have in common, and NameTag is the tag
	// of a cloud's volume that names its member.
	Tags    []string
	NameTag string
	// Disks is a folder of volumes, Machines a folder that lists a cluster's machines.
	Disks, Machines string
	// Port is where managers listen.
	Port    string
	Mounter Mounter
}

// Source is how a platform finds the disk of this machine's member, and other members.
type Source struct {
	// Disk finds the disk; while the class of the error is fault.NotYet or fault.Conflict the
	// caller should ask again after Pause.
	Disk  func(context.Context) (Disk, error)
	Pause time.Duration
	// Address is the machine's own among its peers; nil: the first of its interfaces.
	Address func() (string, error)
	// Discover finds other managers; nil: the platform does not know them.
	Discover func(context.Context) ([]etcd.Sighting, error)
	// Home is the address of the machine whose folder of back-ups all managers share, where
	// each machine has one of its own; nil: they share what is named.
	Home func() (string, error)
	// Watch reports changes of the machines, until ctx ends; nil: nobody does.
	Watch func(ctx context.Context, changed func())
}

// Disk is the folder of a member's data. Peer is the name, and Address the address, of
// the peer that has the disk; they are empty where the disk does not tell.
type Disk struct{ Dir, Peer, Address string }

// cloudPause is how often a cloud is asked for a volume.
const cloudPause = time.Second

// Attached is the source of volumes that a cloud attaches to machines.
func Attached(c Cloud, r Request) Source {
	return Source{
		Pause:    cloudPause,
		Discover: Machines{Cloud: c, Port: r.Port}.Discover,
		Disk: func(ctx context.Context) (Disk, error) {
			v, dir, err := Take(ctx, c, r.Mounter)
			if err != nil {
				return Disk{}, err
			}
			if v.Peer == "" {
				return Disk{}, fault.New(fault.Permanent, "volume %s has no tag %q, which would name the member", v.ID, r.NameTag)
			}
			d := Disk{Dir: dir, Peer: v.Peer}
			if len(v.Addresses) > 0 {
				d.Address = v.Addresses[0]
			}
			return d, nil
		},
	}
}

// Folder finds the one folder of the request's disks whose name starts with its tag.
func (r Request) Folder() (string, error) {
	if len(r.Tags) != 1 {
		return "", fmt.Errorf("the volume provider needs one --volume-tag, not %d", len(r.Tags))
	}
	found, err := filepath.Glob(filepath.Join(r.Disks, strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`).Replace(r.Tags[0])+"*"))
	if err != nil {
		return "", fmt.Errorf("find the volume %s: %w", r.Tags[0], err)
	}
	if len(found) != 1 {
		return "", fault.Wrap(fault.NotYet, fmt.Errorf("%d folders of %s start with %s; there has to be one", len(found), r.Disks, r.Tags[0]),
			"make the folder of this machine's member, or remove those of others")
	}
	return found[0], nil
}
