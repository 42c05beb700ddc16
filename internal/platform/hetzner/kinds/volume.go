package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
)

// Volume is a disk. Changes that would need a new one are forbidden, because it holds the cluster's
// data; it can be enlarged.
type Volume struct {
	Name     string `res:"forbid" tf:"name"`
	Location string `res:"forbid" tf:"location"`
	SizeGB   int    `tf:"size"`
	Labels   Labels `tf:"labels"`

	ID string `res:"out,id" out:"id"`
}

// Volumes is the kind of Volume.
var Volumes = resource.Kind[Volume, *Client]{
	Name:  "hcloud_volume",
	API:   api,
	Tasks: []string{"Volume"},
	Early: true,
	Key:   func(v *Volume) string { return v.Name },
	Holds: func(v *Volume) string {
		if etcd := v.Labels[hetznercloud.VolumeLabel]; etcd != "" {
			return "data of etcd " + etcd
		}
		if claim := v.Labels["pvc-name"]; claim != "" { // the storage driver's label
			return "data of the claim " + v.Labels["pvc-namespace"] + "/" + claim
		}
		return ""
	},
	// The volumes of claims have the cluster's label, too. They are only deleted with the cluster.
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*Volume, error) {
		all, err := ownList(ctx, c, "volumes", s.Cluster, volumeOf)
		return slices.DeleteFunc(all, func(v *Volume) bool { return !s.All && v.Labels[hetznercloud.VolumeLabel] == "" }), err
	},
	Create: func(ctx context.Context, c *Client, v *Volume) error {
		return create(ctx, c, "volumes", &v.ID, map[string]any{
			"name": v.Name, "location": v.Location, "size": v.SizeGB, "labels": v.Labels})
	},
	Update: []resource.Setter[Volume, *Client]{
		{Fields: []string{"SizeGB"}, Set: growVolume},
		relabel(func(v *Volume) (string, Labels) { return v.ID, v.Labels }),
	},
	Delete: func(ctx context.Context, c *Client, v *Volume) error { return c.Delete(ctx, v.ID) },
}

func growVolume(ctx context.Context, c *Client, have, want *Volume) error {
	if want.SizeGB < have.SizeGB {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the volume %s has %d GB, and volumes cannot shrink", have.Name, have.SizeGB),
			fmt.Sprintf("set volumeSize of the etcd member to %d or more", have.SizeGB))
	}
	err := c.Act(ctx, have.ID, "resize", map[string]any{"size": want.SizeGB})
	if !fault.Is(err, fault.Permanent) {
		return err
	}
	// The request of an earlier attempt, whose response was lost, may have succeeded.
	now, getErr := hetznerapi.Get[hetznerapi.Volume](ctx, c.Client, have.ID)
	if getErr != nil || now.Size < want.SizeGB {
		return errors.Join(err, getErr)
	}
	return nil
}

func volumeOf(a hetznerapi.Volume) *Volume {
	return &Volume{Name: a.Name, Location: a.Location.Name, SizeGB: a.Size, Labels: a.Labels, ID: hetznerapi.Path("volumes", a.ID)}
}
