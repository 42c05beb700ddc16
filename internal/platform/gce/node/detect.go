package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/onmachine"
)

// detect asks the instance's metadata server. The provider's identifier of a node is set by
// the cloud's controller, and not by the kubelet.
func detect(ctx context.Context, w onmachine.World, _ *nodeconfig.Boot, _ *nodeconfig.Config) (onmachine.Facts, error) {
	var f onmachine.Facts
	m := gcerest.NewMetadata(w.Env, w.Direct)
	var err error
	get := func(key string) (v string) {
		if err == nil {
			v, err = m.Get(ctx, key)
		}
		return v
	}
	hostname := get("instance/hostname") // a custom one, or NAME.ZONE.c.PROJECT.internal
	const card = "instance/network-interfaces/0/"
	f.Address = get(card + "ip")
	known := append([]string{hostname, f.Address, get(card + "access-configs/0/external-ip")}, strings.Fields(get(card+"ipv6s"))...)
	if err != nil {
		return f, fmt.Errorf("ask the cloud who this machine is: %w", err)
	}
	if hostname == "" || f.Address == "" {
		return f, fault.New(fault.NotYet, "ask the cloud who this machine is: it tells no name or no address")
	}
	f.NodeName, _, _ = strings.Cut(hostname, ".")
	f.Names = names(append(known, f.NodeName))
	return f, nil
}

// names are what is known, once each: addresses as certificates have them.
func names(known []string) []string {
	var out []string
	for _, n := range known {
		if a, err := netip.ParseAddr(n); err == nil {
			n = a.String()
		}
		if n != "" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
