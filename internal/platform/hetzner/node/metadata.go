package node

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/platform/rest/metadata"
)

// service is the metadata service of a server (Hetzner Cloud, "Server metadata"), with keys such as
// metadata/hostname.
type service struct{ metadata.Service }

func newMetadata(w onmachine.World) service {
	return service{metadata.Service{HTTP: w.Direct, Root: cmp.Or(strings.TrimSuffix(w.Env(hetznercloud.MetadataVariable), "/"), "http://"+metadata.Host+"/hetzner/v1")}}
}

// server returns the number of the server on which this runs.
func (m service) server(ctx context.Context) (int64, error) {
	text, err := m.Get(ctx, "metadata/instance-id")
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, fault.New(fault.NotYet, "the metadata service returned %q, which is not the number of a server", text)
	}
	return id, nil
}

// attachment is an address in a private network, and the number of its interface, from 1.
type attachment struct {
	IP        string `json:"ip"`
	Interface int    `json:"interface_num"`
}

// privateAddress returns the address of the first interface in a private network, or "" if there is
// none.
func (m service) privateAddress(ctx context.Context) (string, error) {
	text, err := m.Get(ctx, "metadata/private-networks")
	if err != nil {
		return "", err
	}
	var networks []attachment
	if err := yaml.Unmarshal([]byte(text), &networks); err != nil {
		return "", fault.New(fault.NotYet, "parse the private networks that the metadata service returned: %w", err)
	}
	if len(networks) == 0 {
		return "", nil
	}
	return slices.MinFunc(networks, func(a, b attachment) int { return cmp.Compare(a.Interface, b.Interface) }).IP, nil
}
