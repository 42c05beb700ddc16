package node

import (
	"context"
	"sync"

	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/node/awsdisk"
	"kops.local/kops/internal/platform/onmachine"
)

// volumes returns the EBS volumes as a source.
func volumes(w onmachine.World, r volume.Request) volume.Source {
	return volume.Attached(&disks{world: w, request: r}, r)
}

// disks asks which machine this is when that is first needed, and again while it fails.
type disks struct {
	world   onmachine.World
	request volume.Request

	mu    sync.Mutex
	found *awsdisk.Volumes
}

func (d *disks) connect(ctx context.Context) (*awsdisk.Volumes, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found != nil {
		return d.found, nil
	}
	asks := api(d.world)
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
	d.found = &awsdisk.Volumes{API: client, Machine: machine, Tags: r.Tags, NameTag: r.NameTag, Cluster: r.Cluster}
	return d.found, nil
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
