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

// Request specifies the wanted disk. Paths are as the program sees them.
type Request struct {
	// Cluster is the name of the etcd cluster, such as etcd-events.
	Cluster string
	// Tags are what the volumes of the cluster have in common, and NameTag is the tag
	// of a cloud's volume that names its member.
	Tags    []string
	NameTag string
	// Disks is a folder of volumes, Machines a folder that lists a cluster's machines.
	Disks, Machines string
	// Port is the port on which managers listen.
	Port    string
	Mounter Mounter
}

// Source is how a platform finds the disk of this machine's member, and other members.
type Source struct {
	// Disk finds the disk; if the class of the error is fault.NotYet or fault.Conflict the
	// caller should call it again after Pause.
	Disk  func(context.Context) (Disk, error)
	Pause time.Duration
	// Address returns the machine's own address among its peers; if nil, the first of its interfaces is used.
	Address func() (string, error)
	// Discover finds other managers; nil if the platform does not know them.
	Discover func(context.Context) ([]etcd.Sighting, error)
	// Home returns the address of the machine whose folder of backups all managers share,
	// if each machine has its own; nil if the managers share the configured store.
	Home func() (string, error)
	// Watch reports changes of the machines until ctx ends; may be nil.
	Watch func(ctx context.Context, changed func())
}

// Disk is the folder of a member's data. Peer is the name, and Address the address, of
// the peer that has the disk; they are empty if the disk does not determine them.
type Disk struct{ Dir, Peer, Address string }

// cloudPause is how often a cloud is queried for a volume.
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

// FolderDisk returns the one folder of the request's disks whose name starts with its tag, and
// otherwise is the name of the member.
func (r Request) FolderDisk(context.Context) (Disk, error) {
	dir, err := r.Folder()
	if err != nil {
		return Disk{}, err
	}
	// Peer is a DNS label: the tag, which contains the cluster's name and its dots, is cut off.
	return Disk{Dir: dir, Peer: r.Cluster + "-" + strings.TrimPrefix(filepath.Base(dir), r.Tags[0])}, nil
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
		return "", fault.Wrap(fault.NotYet, fmt.Errorf("%d folders in %s start with %s; there must be one", len(found), r.Disks, r.Tags[0]),
			"create the folder of this machine's member, or remove the folders of other members")
	}
	return found[0], nil
}
