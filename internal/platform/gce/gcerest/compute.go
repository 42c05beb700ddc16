package gcerest

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Instance is what is read of an instance of Compute.
type Instance struct {
	ID                string            `json:"id"` // decimal, of 64 bits; never given again
	Name              string            `json:"name"`
	Zone              string            `json:"zone"` // a URL
	Status            string            `json:"status"`
	SelfLink          string            `json:"selfLink"`
	Created           time.Time         `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Metadata          Metadatas         `json:"metadata"`
	NetworkInterfaces []Interface       `json:"networkInterfaces"`
}

// Metadatas are the metadata of an instance or a template.
type Metadatas struct {
	Items []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"items"`
}

// Get returns the value of a key; "" where there is none.
func (m Metadatas) Get(key string) string {
	for _, i := range m.Items {
		if i.Key == key {
			return i.Value
		}
	}
	return ""
}

// Interface is an interface of an instance.
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

// Addresses returns the addresses of the instance's interfaces in their networks, the first
// interface's first.
func (i Instance) Addresses() []string {
	var out []string
	for _, n := range i.NetworkInterfaces {
		if n.IP != "" {
			out = append(out, n.IP)
		}
	}
	return out
}

// Names are the addresses that the certificate of the instance's kubelet may hold: the addresses
// of its first interface within the network.
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

// InstancePath is where an instance is.
func InstancePath(project, zone, name string) string {
	return ZonePath(project, zone) + "/instances/" + name
}

// ZonePath is where the things of a zone are.
func ZonePath(project, zone string) string { return "projects/" + project + "/zones/" + zone }

// Instances lists the instances of a zone that have the label key with a value.
func (c Client) Instances(ctx context.Context, project, zone, key, value string) ([]Instance, error) {
	return List[Instance](ctx, c, http.MethodGet, Compute, ZonePath(project, zone)+"/instances", "items", url.Values{"filter": {"labels." + key + "=" + value}})
}

// Zones lists the names of the zones of a region.
func (c Client) Zones(ctx context.Context, project, region string) ([]string, error) {
	found, err := List[struct {
		Name string `json:"name"`
	}](ctx, c, http.MethodGet, Compute, "projects/"+project+"/zones", "items", nil)
	var out []string
	for _, z := range found {
		if strings.HasPrefix(z.Name, region+"-") {
			out = append(out, z.Name)
		}
	}
	return out, err
}

// RegionOf is the region of a zone: europe-west1 of europe-west1-b.
func RegionOf(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return ""
}
