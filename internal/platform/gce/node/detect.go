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

// detect reads the instance's metadata server. A node's provider ID is set by the cloud controller,
// not by the kubelet.
func detect(ctx context.Context, w onmachine.World, _ *nodeconfig.Boot, _ *nodeconfig.Config) (onmachine.Facts, error) {
	var f onmachine.Facts
	m := gcerest.NewMetadata(w.Env, w.Direct)
	var err error
	get := m.Getter(ctx, &err)
	hostname := get("instance/hostname") // a custom one, or NAME.ZONE.c.PROJECT.internal
	const card = "instance/network-interfaces/0/"
	f.Address = get(card + "ip")
	known := append([]string{hostname, f.Address, get(card + "access-configs/0/external-ip")}, strings.Fields(get(card+"ipv6s"))...)
	if err != nil {
		return f, fmt.Errorf("identify this machine: %w", err)
	}
	if hostname == "" || f.Address == "" {
		return f, fault.New(fault.NotYet, "identify this machine: the metadata server returned no name or no address")
	}
	f.NodeName, _, _ = strings.Cut(hostname, ".")
	f.Names = normalizeNames(append(known, f.NodeName))
	return f, nil
}

// normalizeNames returns the sorted, distinct names, with addresses in the form that certificates use.
func normalizeNames(known []string) []string {
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
