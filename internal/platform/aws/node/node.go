// Package node is the AWS code for the cluster's machines: an instance gets its identity and the
// credentials of its role from its metadata service; it uses these credentials to call AWS and to
// prove its identity.
//
// It must not know what a machine does with the answers. It does not link the SDK.
package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/aws/node/ec2"
	"kops.local/kops/internal/platform/onmachine"
)

// Environment variables of AWS' own programs.
const (
	region   = "AWS_REGION"
	endpoint = "AWS_ENDPOINT_URL"
	metadata = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// Platform returns the AWS platform.
func Platform() onmachine.Platform {
	return onmachine.Platform{
		Name: "aws", Traits: traits(), Environment: []string{region, endpoint, metadata},
		Detect: detect, Prove: newProver, OnLaunched: completeLaunch, Credentials: credentials, Keys: storeKeys, Volumes: newVolumes,
	}
}

// newAPI returns the API that a machine calls.
func newAPI(w onmachine.World) ec2.API {
	return ec2.API{Metadata: ec2.Metadata{HTTP: w.Direct, Endpoint: strings.TrimSuffix(w.Env(metadata), "/")},
		HTTP: w.HTTP, Region: w.Env(region), Endpoint: w.Env(endpoint), Now: w.Now}
}

// newProver returns the prover of this machine's role, which a group's machines have.
func newProver(w onmachine.World) (bootstrap.Prover, error) {
	a := newAPI(w)
	if a.Region == "" {
		return nil, fault.Wrap(fault.Permanent, errors.New("the environment has no AWS_REGION"), "export it in the machine's user data: run kops update cluster --yes")
	}
	at := a.Endpoint
	if at == "" {
		at = awsquery.Endpoint("sts", a.Region)
	}
	return awssts.Prover{Endpoint: at, Region: a.Region, Credentials: a.Metadata.Credentials, Now: a.Now}, nil
}

// storeKeys reads the access keys of the cluster's store.
func storeKeys(ctx context.Context, w onmachine.World, place string) (onmachine.Credentials, error) {
	text, err := newAPI(w).Parameter(ctx, place)
	if err != nil {
		return onmachine.Credentials{}, err
	}
	p, err := storekeys.Parse(text)
	if err != nil {
		return onmachine.Credentials{}, fault.Wrap(fault.Permanent, fmt.Errorf("read the parameter %s: %w", place, err), "run kops update cluster --yes to write it again")
	}
	return onmachine.Credentials{ID: p.ID, Secret: p.Secret}, nil
}

// completeLaunch notifies an instance's Auto Scaling group that it no longer
// needs to wait for the instance.
func completeLaunch(ctx context.Context, w onmachine.World, f onmachine.Facts) error {
	err := newAPI(w).Continue(ctx, f.Waiting, path.Base(f.ProviderID))
	if said := (*awsquery.Error)(nil); errors.As(err, &said) && said.Code == "ValidationError" && !f.Warming {
		return nil // no group waits for a restarted machine
	}
	return err
}

// credentials returns the credentials of the machine's role.
func credentials(ctx context.Context, w onmachine.World) (onmachine.Credentials, error) {
	c, err := newAPI(w).Metadata.Credentials(ctx)
	return onmachine.Credentials(c), err
}
