package node

import (
	"context"
	"sync"

	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/node/awsdisk"
	"kops.local/kops/internal/platform/onmachine"
)

// newVolumes returns the EBS volumes as a source.
func newVolumes(w onmachine.World, r volume.Request) volume.Source {
	return volume.Attached(&disks{world: w, request: r}, r)
}

// disks finds out which machine this is on first use, and retries after a failure.
type disks struct {
	world   onmachine.World
	request volume.Request

	mu      sync.Mutex
	volumes *awsdisk.Volumes
}

func (d *disks) connect(ctx context.Context) (*awsdisk.Volumes, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.volumes != nil {
		return d.volumes, nil
	}
	asks := newAPI(d.world)
	machine, err := awsdisk.Identify(ctx, asks.Metadata)
	if err != nil {
		return nil, err
	}
	asks.Region = machine.Region
	client := asks.Client()
	if own := (awsquery.Credentials{ID: d.world.Env("AWS_ACCESS_KEY_ID"), Secret: d.world.Env("AWS_SECRET_ACCESS_KEY"), Token: d.world.Env("AWS_SESSION_TOKEN")}); own.ID != "" && own.Secret != "" {
		client.Credentials = func(context.Context) (awsquery.Credentials, error) { return own, nil }
	}
	r := d.request
	d.volumes = &awsdisk.Volumes{API: client, Machine: machine, Tags: r.Tags, NameTag: r.NameTag, Cluster: r.Cluster}
	return d.volumes, nil
}

// Volumes implements volume.Cloud.
func (d *disks) Volumes(ctx context.Context) ([]volume.Volume, error) {
	v, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	return v.Volumes(ctx)
}

// Attach implements volume.Cloud.
func (d *disks) Attach(ctx context.Context, v volume.Volume) error {
	c, err := d.connect(ctx)
	if err != nil {
		return err
	}
	return c.Attach(ctx, v)
}
