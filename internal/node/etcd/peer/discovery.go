package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops/internal/node/etcd"
)

// Discovery finds the managers of a cluster. Its results are only a start:
// managers tell each other about those they know.
type Discovery interface {
	// Discover returns the places where managers may be, with an empty name if it is not known.
	// The best address of a manager with several comes first. Finding none is not an error;
	// places returned together with an error are still worth trying.
	Discover(ctx context.Context) ([]etcd.Sighting, error)
}

// nameless returns managers known only by their endpoints.
func nameless(endpoints []string) []etcd.Sighting {
	out := make([]etcd.Sighting, len(endpoints))
	for i, e := range endpoints {
		out[i].Endpoint = e
	}
	return out
}

// Static is a list of endpoints.
type Static []string

// Discover implements Discovery.
func (s Static) Discover(context.Context) ([]etcd.Sighting, error) { return nameless(s), nil }

// File is a file with an endpoint on each line, or a folder of such files; it is read each time,
// and may be missing. A line without a port gets Port; a line that starts with # is a comment.
type File struct {
	Path string
	Port string
}

// Discover implements Discovery.
func (f File) Discover(context.Context) ([]etcd.Sighting, error) {
	paths := []string{f.Path}
	entries, err := os.ReadDir(f.Path)
	if err == nil {
		paths = nil
		for _, e := range entries {
			paths = append(paths, filepath.Join(f.Path, e.Name()))
		}
	}
	var out []string
	var failed error
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("read the addresses of other managers: %w", err))
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, withPort(line, f.Port))
			}
		}
	}
	return nameless(out), failed
}

// DNS is a list of names that resolve to the managers' machines; all listen on one port.
type DNS struct {
	Names []string
	Port  string
	// Resolver is the resolver to use; nil means the system's.
	Resolver *net.Resolver
}

// Discover implements Discovery. A name that does not exist yet is not an error.
func (d DNS) Discover(ctx context.Context) ([]etcd.Sighting, error) {
	resolver := d.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	var out []string
	var failed error
	for _, n := range d.Names {
		addresses, err := resolver.LookupHost(ctx, n)
		var unknown *net.DNSError
		if err != nil && (!errors.As(err, &unknown) || !unknown.IsNotFound) {
			failed = errors.Join(failed, fmt.Errorf("find other managers: %w", err))
		}
		for _, a := range addresses {
			out = append(out, net.JoinHostPort(a, d.Port))
		}
	}
	slices.Sort(out)
	return nameless(out), failed
}

// Any combines several ways to find managers.
type Any []Discovery

// Discover implements Discovery.
func (a Any) Discover(ctx context.Context) ([]etcd.Sighting, error) {
	var out []etcd.Sighting
	var failed error
	for _, d := range a {
		found, err := d.Discover(ctx)
		out, failed = append(out, found...), errors.Join(failed, err)
	}
	return out, failed
}

// Named is a list of managers with their names and endpoints.
type Named []etcd.Sighting

// Discover implements Discovery.
func (n Named) Discover(context.Context) ([]etcd.Sighting, error) { return n, nil }

// StaticConfig reads the nodes of a configuration such as
// {"etcdVersion":"3.6.12","nodes":[{"id":"c--main--0","ip":["node0.main.c"]}]} as
// a list of names and endpoints, all with one port.
func StaticConfig(text, port string) (Named, error) {
	var c struct {
		Nodes []struct {
			ID string   `json:"id"`
			IP []string `json:"ip"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("read the static configuration: %w", err)
	}
	var out Named
	for _, n := range c.Nodes {
		for _, ip := range n.IP {
			out = append(out, etcd.Sighting{ID: n.ID, Endpoint: net.JoinHostPort(ip, port)})
		}
	}
	return out, nil
}

// withPort adds a port to a host or an IPv6 address without one.
func withPort(s, port string) string {
	if _, _, err := net.SplitHostPort(s); err == nil {
		return s
	}
	return net.JoinHostPort(strings.Trim(s, "[]"), port)
}
