package node

import (
	"context"

	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/node/awsdisk"
	"kops.local/kops/internal/platform/onmachine"
)

// newVolumes returns the EBS volumes as a source.
func newVolumes(w onmachine.World, r volume.Request) volume.Source {
	return volume.FromLabels(r, func(ctx context.Context) (volume.Disks, volume.Place, error) {
		v, err := connectVolumes(ctx, w, r)
		return v, volume.Place{Machine: v.Machine.ID, Location: v.Machine.Zone}, err
	})
}

func connectVolumes(ctx context.Context, w onmachine.World, r volume.Request) (awsdisk.Volumes, error) {
	asks := newAPI(w)
	machine, err := awsdisk.Identify(ctx, asks.Metadata)
	if err != nil {
		return awsdisk.Volumes{}, err
	}
	asks.Region = machine.Region
	client := asks.Client()
	if own := (awsquery.Credentials{ID: w.Env("AWS_ACCESS_KEY_ID"), Secret: w.Env("AWS_SECRET_ACCESS_KEY"), Token: w.Env("AWS_SESSION_TOKEN")}); own.ID != "" && own.Secret != "" {
		client.Credentials = func(context.Context) (awsquery.Credentials, error) { return own, nil }
	}
	return awsdisk.Volumes{API: client, Machine: machine, Tags: r.Tags, NameTag: r.NameTag}, nil
}
