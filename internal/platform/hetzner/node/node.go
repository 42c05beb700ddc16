// Package node is Hetzner Cloud on its machines: the metadata service tells a server who it is, a claim
// names it to kops-controller, and the API lists and attaches the volumes of etcd. Control planes use a
// token of the API, which they have from the cluster's store, and the keys of the store, which are in
// their user data.
//
// It must not know what a machine does with the answers. It links no SDK.
package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/onmachine"
)

// Platform returns Hetzner Cloud.
func Platform() onmachine.Platform {
	return onmachine.Platform{
		Name: "hetzner", Traits: onmachine.Traits{VerifiedKubelets: true, CalledBack: true},
		Environment: []string{hetznercloud.EndpointVariable, hetznercloud.MetadataVariable},
		Detect:      detect, Prove: newProver, Keys: storeKeys, Secrets: []string{hetznercloud.TokenVariable}, Volumes: newVolumes,
	}
}

// detect asks the metadata service. The server's private address is the one at which others reach it.
func detect(ctx context.Context, w onmachine.World, _ *nodeconfig.Boot, _ *nodeconfig.Config) (onmachine.Facts, error) {
	m := newMetadata(w)
	id, err := m.server(ctx)
	get := m.Getter(ctx, &err)
	name, public, private := get("metadata/hostname"), get("metadata/public-ipv4"), ""
	if err == nil {
		private, err = m.privateAddress(ctx)
	}
	switch {
	case err != nil:
		return onmachine.Facts{}, fmt.Errorf("identify this machine: %w", err)
	case name == "" || private == "":
		return onmachine.Facts{}, fault.New(fault.NotYet, "identify this machine: the metadata service returned no name, or no address in a private network")
	}
	names := slices.DeleteFunc([]string{name, private, public}, func(n string) bool { return n == "" })
	slices.Sort(names)
	return onmachine.Facts{NodeName: name, Names: slices.Compact(names), Address: private, ProviderID: hetznercloud.ProviderPrefix + strconv.FormatInt(id, 10)}, nil
}

// newProver returns a prover that names this server, which attests nothing.
func newProver(w onmachine.World) (bootstrap.Prover, error) {
	m := newMetadata(w)
	return bootstrap.Claim{Scheme: hetznercloud.ClaimScheme, ID: func(ctx context.Context) (string, error) {
		id, err := m.server(ctx)
		return strconv.FormatInt(id, 10), err
	}}, nil
}

// storeKeys reads the keys of the cluster's store from this server's user data.
func storeKeys(ctx context.Context, w onmachine.World, place string) (onmachine.Credentials, error) {
	if place != storekeys.UserData {
		return onmachine.Credentials{}, fault.New(fault.Permanent, "servers keep keys in %s, and not in %s", storekeys.UserData, place)
	}
	text, err := newMetadata(w).Get(ctx, "userdata")
	if err != nil {
		return onmachine.Credentials{}, err
	}
	p, err := storekeys.FindInScript(text)
	if err != nil {
		return onmachine.Credentials{}, fault.Wrap(fault.Permanent, fmt.Errorf("read the user data: %w", err), "replace the machine: kops update cluster --yes, then kops rolling-update cluster --yes")
	}
	return onmachine.Credentials{ID: p.ID, Secret: p.Secret}, nil
}
