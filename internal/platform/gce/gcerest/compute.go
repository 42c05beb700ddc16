package gcerest

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/platform/rest"
)

// Instance holds the fields of a Compute Engine instance that are used.
type Instance struct {
	ID                string            `json:"id"` // decimal, 64 bits; never reused
	Name              string            `json:"name"`
	Zone              string            `json:"zone"` // a URL
	Status            string            `json:"status"`
	SelfLink          string            `json:"selfLink"`
	Created           time.Time         `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Metadata          Metadatas         `json:"metadata"`
	NetworkInterfaces []Interface       `json:"networkInterfaces"`
}

// Metadatas is the metadata of an instance or a template.
type Metadatas struct {
	Items []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"items"`
}

// Get returns the value of a key; "" if it is not set.
func (m Metadatas) Get(key string) string {
	for _, i := range m.Items {
		if i.Key == key {
			return i.Value
		}
	}
	return ""
}

// Interface is a network interface of an instance.
type Interface struct {
	IP            string         `json:"networkIP"`
	IPv6          string         `json:"ipv6Address"` // an internal one
	AccessConfigs []AccessConfig `json:"accessConfigs"`
	IPv6Access    []AccessConfig `json:"ipv6AccessConfigs"`
}

// AccessConfig is an external address of an interface.
type AccessConfig struct {
	IP           string `json:"natIP"`
	IPv6         string `json:"externalIpv6"`
	PrefixLength int    `json:"externalIpv6PrefixLength"`
}

// Addresses returns the internal addresses of the instance's interfaces, starting with the first
// interface.
func (i Instance) Addresses() []string {
	var out []string
	for _, n := range i.NetworkInterfaces {
		if n.IP != "" {
			out = append(out, n.IP)
		}
	}
	return out
}

// Names returns the addresses that the certificate of the instance's kubelet may contain: those of
// its first interface, and its external IPv6 addresses.
func (i Instance) Names() []string {
	if len(i.NetworkInterfaces) == 0 {
		return nil
	}
	n := i.NetworkInterfaces[0]
	out := []string{n.IP, n.IPv6}
	for _, a := range n.IPv6Access {
		out = append(out, a.IPv6)
	}
	out = slices.DeleteFunc(out, func(a string) bool { _, err := netip.ParseAddr(a); return err != nil })
	slices.Sort(out)
	return slices.Compact(out)
}

// InstancePath returns the path of an instance.
func InstancePath(project, zone, name string) string {
	return ZonePath(project, zone) + "/instances/" + name
}

// ZonePath returns the path prefix of a zone's objects.
func ZonePath(project, zone string) string { return "projects/" + project + "/zones/" + zone }

// Instances lists a zone's instances on which the label key has this value.
func (c Client) Instances(ctx context.Context, project, zone, key, value string) ([]Instance, error) {
	return List[Instance](ctx, c, Compute, rest.Request{Path: ZonePath(project, zone) + "/instances", Query: url.Values{"filter": {"labels." + key + "=" + value}}}, "items")
}

// Zones lists the names of the zones of a region.
func (c Client) Zones(ctx context.Context, project, region string) ([]string, error) {
	found, err := List[struct {
		Name string `json:"name"`
	}](ctx, c, Compute, rest.Request{Path: "projects/" + project + "/zones"}, "items")
	var out []string
	for _, z := range found {
		if strings.HasPrefix(z.Name, region+"-") {
			out = append(out, z.Name)
		}
	}
	return out, err
}

// RegionOf returns the region of a zone: europe-west1 for europe-west1-b.
func RegionOf(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return ""
}
