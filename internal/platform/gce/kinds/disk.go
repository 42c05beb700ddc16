package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// Disk is a zonal persistent disk. Changes that would need a new disk are forbidden, because the
// disk holds the cluster's data; it can be enlarged.
type Disk struct {
	Name       string `res:"forbid" tf:"name"`
	Zone       string `res:"forbid" tf:"zone"` // "" for a regional disk, which only drivers create
	Type       string `res:"forbid" tf:"type"` // "pd-ssd", "hyperdisk-balanced", …
	SizeGiB    int    `tf:"size"`
	IOPS       int    `res:"default" tf:"provisioned_iops"`
	Throughput int    `res:"default" tf:"provisioned_throughput"` // MiB/s
	Labels     Labels `tf:"labels"`

	ID string `res:"out,id" out:"id"`
	// Claim is the claim, as namespace/name, whose data a driver in the cluster keeps there.
	Claim string `res:"out"`
}

// Disks is the kind of Disk. The label k8s-io-etcd-… distinguishes it from disks created by drivers
// in the cluster.
var Disks = resource.Kind[Disk, *Client]{
	Name:   "google_compute_disk",
	API:    apiCompute,
	Tasks:  []string{"Disk"},
	Early:  true,
	Key:    func(d *Disk) string { return d.Name },
	Holds:  describeData,
	List:   listDisks,
	Create: createDisk,
	Update: []resource.Setter[Disk, *Client]{
		{Fields: []string{"SizeGiB"}, Set: growDisk},
		{Fields: []string{"IOPS", "Throughput"}, Set: setDiskSpeed},
		{Fields: []string{"Labels"}, Set: func(ctx context.Context, c *Client, have, want *Disk) error {
			return labelDisk(ctx, c, want.Labels, have)
		}},
	},
	Delete: func(ctx context.Context, c *Client, d *Disk) error {
		if d.Zone == "" {
			return fault.IgnoreGone(c.Await(ctx)(c.Compute.RegionDisks.Delete(c.Project, c.Region, d.Name).Context(ctx).Do()))
		}
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Disks.Delete(c.Project, d.Zone, d.Name).Context(ctx).Do()))
	},
}

// describeData describes the owner of the data on a disk.
func describeData(d *Disk) string {
	for key := range maps.Keys(d.Labels) {
		if etcd, ok := strings.CutPrefix(key, gcecloud.EtcdPrefix); ok {
			return "data of etcd " + etcd
		}
	}
	if d.Claim != "" {
		return "data of the claim " + d.Claim
	}
	return ""
}

// listDisks lists the disks that kops created; with Scope.All also those that storage drivers
// created, except disks that are deleted with their machine.
func listDisks(ctx context.Context, c *Client, s resource.Scope) ([]*Disk, error) {
	boot := map[string]bool{}
	if s.All {
		machines, err := c.allInstances(ctx, s.Cluster)
		if err != nil {
			return nil, err
		}
		for _, m := range machines {
			for _, d := range m.Disks {
				boot[gceapi.Link(d.Source)] = d.AutoDelete
			}
		}
	}
	list, err := c.allDisks(ctx, s.Cluster)
	return selectObjects(list, err, func(d *compute.Disk) bool {
		return s.All && !boot[gceapi.Link(d.SelfLink)] || etcdDisk(d.Labels)
	}, diskOf)
}

func etcdDisk(labels map[string]string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(k string) bool { return strings.HasPrefix(k, gcecloud.EtcdPrefix) })
}

func diskOf(d *compute.Disk) *Disk {
	return &Disk{Name: d.Name, Zone: gceapi.Name(d.Zone), Type: gceapi.Name(d.Type), SizeGiB: int(d.SizeGb), IOPS: int(d.ProvisionedIops),
		Throughput: int(d.ProvisionedThroughput), Labels: d.Labels, ID: gceapi.Link(d.SelfLink), Claim: claimOf(d.Description)}
}

// claimOf returns the claim that a storage driver wrote into the description of a disk.
func claimOf(description string) string {
	var d struct {
		Name      string `json:"kubernetes.io/created-for/pvc/name"`
		Namespace string `json:"kubernetes.io/created-for/pvc/namespace"`
	}
	if json.Unmarshal([]byte(description), &d) != nil || d.Name == "" {
		return ""
	}
	return d.Namespace + "/" + d.Name
}

// createDisk adopts an existing disk of that name if it has no labels: another program may have
// stopped between creating and labelling it.
func createDisk(ctx context.Context, c *Client, d *Disk) error {
	base := "projects/" + c.Project + "/zones/" + d.Zone
	d.ID = base + "/disks/" + d.Name
	err := c.Await(ctx)(c.Compute.Disks.Insert(c.Project, d.Zone, &compute.Disk{Name: d.Name, Type: gceapi.URL(base + "/diskTypes/" + d.Type), SizeGb: int64(d.SizeGiB),
		ProvisionedIops: int64(d.IOPS), ProvisionedThroughput: int64(d.Throughput), Labels: d.Labels}).Context(ctx).Do())
	if !isAlreadyExists(err) {
		return err
	}
	current, lookErr := gceapi.Result(c.Compute.Disks.Get(c.Project, d.Zone, d.Name).Context(ctx).Do())
	if lookErr != nil || len(current.Labels) > 0 || len(current.Users) > 0 || gceapi.Name(current.Type) != d.Type || int(current.SizeGb) != d.SizeGiB {
		return err
	}
	return labelDisk(ctx, c, d.Labels, d)
}

// isAlreadyExists reports whether a creation failed because the name is already taken.
func isAlreadyExists(err error) bool {
	reason := gceapi.Reason(err)
	return reason == "alreadyexists" || reason == "resourcealreadyexists"
}

func growDisk(ctx context.Context, c *Client, have, want *Disk) error {
	if want.SizeGiB < have.SizeGiB {
		return fault.Wrap(fault.Permanent, fmt.Errorf("disk %s has %d GiB and cannot shrink to %d", have.Name, have.SizeGiB, want.SizeGiB),
			fmt.Sprintf("set the volume's size to %d or more", have.SizeGiB))
	}
	if grown, err := isLargeEnough(ctx, c, want); err != nil || grown { // an earlier attempt, whose response was lost, succeeded
		return err
	}
	err := c.Await(ctx)(c.Compute.Disks.Resize(c.Project, have.Zone, have.Name, &compute.DisksResizeRequest{SizeGb: int64(want.SizeGiB)}).Context(ctx).Do())
	if fault.Is(err, fault.Permanent) { // or that attempt was still running, and has succeeded since
		if grown, lookErr := isLargeEnough(ctx, c, want); lookErr == nil && grown {
			return nil
		}
	}
	return err
}

// isLargeEnough reports whether a disk is at least as large as wanted.
func isLargeEnough(ctx context.Context, c *Client, want *Disk) (bool, error) {
	current, err := gceapi.Result(c.Compute.Disks.Get(c.Project, want.Zone, want.Name).Context(ctx).Do())
	return err == nil && current.SizeGb >= int64(want.SizeGiB), err
}

// setDiskSpeed changes the IOPS and the throughput, if they are set. Disk types whose performance
// follows from their size reject it.
func setDiskSpeed(ctx context.Context, c *Client, have, want *Disk) error {
	change, paths := &compute.Disk{}, []string{}
	if want.IOPS != 0 && want.IOPS != have.IOPS {
		change.ProvisionedIops, paths = int64(want.IOPS), append(paths, "provisionedIops")
	}
	if want.Throughput != 0 && want.Throughput != have.Throughput {
		change.ProvisionedThroughput, paths = int64(want.Throughput), append(paths, "provisionedThroughput")
	}
	if len(paths) == 0 {
		return nil
	}
	if !strings.HasPrefix(have.Type, "hyperdisk-") {
		return fault.Wrap(fault.Permanent, errors.New("disk "+have.Name+" has the type "+have.Type+", whose performance cannot be changed after creation"),
			"undo the change to volumeIops and volumeThroughput; a larger volumeSize makes the disk faster")
	}
	change.Name = have.Name
	return c.Await(ctx)(c.Compute.Disks.Update(c.Project, have.Zone, have.Name, change).Paths(paths...).Context(ctx).Do())
}

// labelDisk sets labels on a disk, keeping those that others added.
func labelDisk(ctx context.Context, c *Client, labels Labels, d *Disk) error {
	current, err := gceapi.Result(c.Compute.Disks.Get(c.Project, d.Zone, d.Name).Context(ctx).Do())
	if err != nil {
		return err
	}
	return c.Await(ctx)(c.Compute.Disks.SetLabels(c.Project, d.Zone, d.Name, &compute.ZoneSetLabelsRequest{
		Labels: resource.WithForeign(labels, current.Labels), LabelFingerprint: current.LabelFingerprint}).Context(ctx).Do())
}
