package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/onmachine"
)

const (
	metadataRoot = "http://169.254.169.254/hetzner/v1"
	// patience limits a request to the metadata service.
	patience = 10 * time.Second
	// maxMetadata is the maximum size of its responses, in bytes: user data has at most 32 KiB.
	maxMetadata = 1 << 20
)

// metadata is the metadata service of a server (Hetzner Cloud, "Server metadata").
type metadata struct {
	http *http.Client // without a proxy, whose own metadata would be returned
	root string
}

func newMetadata(w onmachine.World) metadata {
	return metadata{w.Direct, cmp.Or(strings.TrimSuffix(w.Env(hetznercloud.MetadataVariable), "/"), metadataRoot)}
}

// get returns the value of a key such as metadata/hostname, and "" if it is not set. Other errors have
// class fault.NotYet.
func (m metadata) get(ctx context.Context, key string) (string, error) {
	text, err := m.request(ctx, key)
	if err != nil {
		return "", fault.New(fault.NotYet, "get %s from the metadata service: %w", key, err)
	}
	return strings.TrimSpace(text), nil
}

func (m metadata) request(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.root+"/"+key, nil)
	if err != nil {
		return "", err
	}
	res, err := m.http.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxMetadata))
	switch {
	case err != nil:
		return "", err
	case res.StatusCode == http.StatusNotFound:
		return "", nil
	case res.StatusCode != http.StatusOK:
		return "", fmt.Errorf("it returned %s", res.Status)
	}
	return string(text), nil
}

// server returns the number of the server on which this runs.
func (m metadata) server(ctx context.Context) (int64, error) {
	text, err := m.get(ctx, "metadata/instance-id")
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
func (m metadata) privateAddress(ctx context.Context) (string, error) {
	text, err := m.get(ctx, "metadata/private-networks")
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
