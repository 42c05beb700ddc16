package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/node/awsdisk"
)

// pause is the time between two tries to find the member's disk.
func (o *options) pause() time.Duration {
	if o.cloud != nil {
		return cloudPause
	}
	return retryPause
}

// cloudDisk takes the volume of this machine.
func (o *options) cloudDisk(ctx context.Context) (place, error) {
	v, dir, err := volume.Take(ctx, o.cloud, o.mounter)
	if err != nil {
		return place{}, err
	}
	p := place{id: v.Peer, dir: dir}
	if p.id == "" {
		return place{}, fault.New(fault.Permanent, "volume %s has no tag %q, which would name the member", v.ID, o.nameTag)
	}
	if len(v.Addresses) > 0 {
		p.address = v.Addresses[0]
	}
	return p, nil
}

// awsVolumes connects to AWS when it is first needed, and again while that fails.
type awsVolumes struct {
	options *options

	mu    sync.Mutex
	found *awsdisk.Volumes
}

func (a *awsVolumes) connect(ctx context.Context) (*awsdisk.Volumes, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.found != nil {
		return a.found, nil
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of AWS: %w", err)
	}
	machine, err := awsdisk.Identify(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o := a.options
	a.found = &awsdisk.Volumes{API: client(cfg, machine.Region), Machine: machine, Tags: o.volumeTags, NameTag: o.nameTag, Cluster: o.cluster}
	return a.found, nil
}

// client asks AWS as the configuration of its SDK says.
func client(cfg aws.Config, region string) awsquery.Client {
	c := awsquery.Client{Endpoint: aws.ToString(cfg.BaseEndpoint), Region: region, HTTP: cfg.HTTPClient, Now: time.Now}
	if cfg.HTTPClient == nil {
		c.HTTP = awshttp.NewBuildableClient()
	}
	c.Credentials = func(ctx context.Context) (awsquery.Credentials, error) {
		k, err := cfg.Credentials.Retrieve(ctx)
		return awsquery.Credentials{ID: k.AccessKeyID, Secret: k.SecretAccessKey, Token: k.SessionToken}, err
	}
	return c
}

// Volumes implements volume.Cloud.
func (a *awsVolumes) Volumes(ctx context.Context) ([]volume.Volume, error) {
	v, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	return v.Volumes(ctx)
}

// Attach implements volume.Cloud.
func (a *awsVolumes) Attach(ctx context.Context, v volume.Volume) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	return c.Attach(ctx, v)
}
