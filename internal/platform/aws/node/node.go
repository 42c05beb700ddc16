// Package node is AWS on its machines: the metadata service of an instance tells who it
// is, and gives it the credentials of its role, with which it asks AWS and proves itself.
//
// It must not know what a machine makes of the answers. It links no SDK.
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

// The variables of AWS' own programs.
const (
	region   = "AWS_REGION"
	endpoint = "AWS_ENDPOINT_URL"
	metadata = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// Platform is AWS.
func Platform() onmachine.Platform {
	return onmachine.Platform{
		Name: "aws", Traits: traits(), Environment: []string{region, endpoint, metadata},
		Detect: detect, Prove: prove, Launched: launched, Credentials: credentials, Keys: keys, Volumes: volumes,
	}
}

// api is what a machine asks.
func api(w onmachine.World) ec2.API {
	return ec2.API{Metadata: ec2.Metadata{HTTP: w.Direct, Endpoint: strings.TrimSuffix(w.Env(metadata), "/")},
		HTTP: w.HTTP, Region: w.Env(region), Endpoint: w.Env(endpoint), Now: w.Now}
}

// prove proves that this machine has the role of a group's.
func prove(w onmachine.World) (bootstrap.Prover, error) {
	a := api(w)
	if a.Region == "" {
		return nil, fault.Wrap(fault.Permanent, errors.New("the environment has no AWS_REGION"), "let the machine's user data export it: kops update cluster --yes writes it so")
	}
	at := a.Endpoint
	if at == "" {
		at = awsquery.Endpoint("sts", a.Region)
	}
	return awssts.Prover{Endpoint: at, Region: a.Region, Credentials: a.Metadata.Credentials, Now: a.Now}, nil
}

// keys reads the keys of the server of the cluster's store.
func keys(ctx context.Context, w onmachine.World, place string) (onmachine.Credentials, error) {
	text, err := api(w).Parameter(ctx, place)
	if err != nil {
		return onmachine.Credentials{}, err
	}
	p, err := storekeys.Parse(text)
	if err != nil {
		return onmachine.Credentials{}, fault.Wrap(fault.Permanent, fmt.Errorf("read the parameter %s: %w", place, err), "kops update cluster --yes writes it again")
	}
	return onmachine.Credentials{ID: p.ID, Secret: p.Secret}, nil
}

// launched tells the Auto Scaling group of an instance that it need not be waited for.
func launched(ctx context.Context, w onmachine.World, f onmachine.Facts) error {
	err := api(w).Continue(ctx, f.Waiting, path.Base(f.ProviderID))
	if said := (*awsquery.Error)(nil); errors.As(err, &said) && said.Code == "ValidationError" && !f.Warming {
		return nil // no group waits for a machine that is only started again
	}
	return err
}

// credentials returns the credentials of the machine's role.
func credentials(ctx context.Context, w onmachine.World) (onmachine.Credentials, error) {
	c, err := api(w).Metadata.Credentials(ctx)
	return onmachine.Credentials(c), err
}
