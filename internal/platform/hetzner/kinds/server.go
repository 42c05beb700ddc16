package kinds

import (
	"context"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/servers"
)

// ServerGroup is the servers of an instance group.
type ServerGroup struct {
	Cluster string `res:"forbid"`
	Group   string `res:"forbid"`
	// Name is the name of each server in Terraform, which numbers them.
	Name     string           `res:"writeonly" tf:"name,raw"`
	Least    int              `res:",least" tf:"count,zero"`
	Most     int              `res:",most"`
	Type     string           `tf:"server_type"`
	Image    string           `tf:"image"`
	Location string           `tf:"location"`
	UserData resource.Content `tf:"user_data,file64"`
	Labels   Labels           `tf:"labels"`

	SSHKeys   []resource.Value `res:"writeonly" tf:"ssh_keys"`
	Network   ServerNetwork    `res:"writeonly" tf:"network,block"`
	PublicNet PublicNet        `res:"writeonly" tf:"public_net,block"`
	// Placement is the placement group of new servers; nil: none.
	Placement resource.Value `res:"writeonly" tf:"placement_group_id"`
	Lifecycle Lifecycle      `res:"writeonly" tf:"lifecycle,block"`

	// Uses are the networks, volumes, firewalls and placement groups that are used by the servers.
	Uses []resource.Value `res:"out"`
}

// ServerNetwork is the network of servers.
type ServerNetwork struct {
	Network resource.Value `tf:"network_id"`
}

// PublicNet is which public addresses servers have.
type PublicNet struct {
	IPv4 bool `tf:"ipv4_enabled,zero"`
	IPv6 bool `tf:"ipv6_enabled,zero"`
}

// Lifecycle lists arguments whose changes Terraform ignores.
type Lifecycle struct {
	Ignore []string `tf:"ignore_changes,raw"`
}

// Servers is the kind of ServerGroup.
var Servers = *Fleet().Kind(resource.Kind[ServerGroup, *Client]{Name: "hcloud_server", API: api, Tasks: []string{"ServerGroup"}, Early: true},
	[]string{"Type", "Image", "Location", "UserData"}, []string{"Least", "Most", "Labels"})

// Fields of a spec of which servers are made.
const (
	fieldType     = "spec.machineType"
	fieldImage    = "spec.image"
	fieldLocation = "spec.subnets"
)

// Fleet says how servers are listed, started, labelled and ended.
func Fleet() *servers.Fleet[ServerGroup, *Client] {
	return &servers.Fleet[ServerGroup, *Client]{
		List: listServers, Start: startServer, End: endServer,
		Label: func(ctx context.Context, c *Client, s servers.Server, labels map[string]string) error {
			return setLabels(ctx, c, s.ID, s.Labels, labels)
		},
		Group: func(g *ServerGroup) servers.Group {
			return servers.Group{Cluster: g.Cluster, Name: g.Group, Least: g.Least, Most: g.Most, Labels: g.Labels, UserData: g.UserData,
				Made: map[string]string{fieldType: g.Type, fieldImage: g.Image, fieldLocation: g.Location}}
		},
		Observed: func(g servers.Group) *ServerGroup {
			return &ServerGroup{Cluster: g.Cluster, Group: g.Name, Least: g.Least, Most: g.Most, Labels: g.Labels, UserData: g.UserData,
				Type: g.Made[fieldType], Image: g.Made[fieldImage], Location: g.Made[fieldLocation], Uses: g.Uses}
		},
	}
}

func usesOf(a hetznerapi.Server) []resource.Value {
	var out []resource.Value
	for _, n := range a.PrivateNet {
		out = append(out, reference("networks", n.Network))
	}
	for _, v := range a.Volumes {
		out = append(out, reference("volumes", v))
	}
	for _, f := range a.PublicNet.Firewalls {
		out = append(out, reference("firewalls", f.ID))
	}
	if g := a.PlacementGroup; g != nil {
		out = append(out, reference("placement_groups", g.ID))
	}
	return out
}

func listServers(ctx context.Context, c *Client, cluster, group string) ([]servers.Server, error) {
	all, err := ownList(ctx, c, "servers", cluster, serverOf)
	return slices.DeleteFunc(all, func(s servers.Server) bool { return group != "" && s.Group != group }), err
}

func serverOf(a hetznerapi.Server) servers.Server {
	s := servers.Server{ID: hetznerapi.Path("servers", a.ID), Name: a.Name, Group: hetznercloud.GroupOf(a.Labels), Labels: a.Labels, State: a.Status, Zone: a.Location.Name, Created: a.Created,
		Starting: a.Status == "initializing" || a.Status == "starting", Running: a.Status == "running", Ending: a.Status == "deleting", Protected: a.Protection.Delete, Addresses: a.PrivateAddresses(), Uses: usesOf(a),
		Made: map[string]string{fieldType: a.ServerType.Name, fieldImage: "", fieldLocation: a.Location.Name}}
	if a.Image != nil {
		s.Made[fieldImage] = hetznercloud.ImageName(a.Image.ID, a.Image.Name)
	}
	if ip := a.PublicNet.IPv4; ip != nil {
		s.Addresses = append(s.Addresses, ip.IP)
	}
	return s
}

// startServer creates a server, which starts. If it cannot be attached to the network, it is deleted: it
// could not join its cluster.
func startServer(ctx context.Context, c *Client, of *ServerGroup, l servers.Launch) error {
	keys := []string{}
	for _, k := range of.SSHKeys {
		keys = append(keys, strings.TrimPrefix(k.Text(), "ssh_keys/"))
	}
	body := map[string]any{
		"name": l.Name, "server_type": of.Type, "image": of.Image, "location": of.Location, "ssh_keys": keys, "user_data": l.UserData, "labels": l.Labels,
		"networks": []int64{number(of.Network.Network)}, "public_net": map[string]bool{"enable_ipv4": of.PublicNet.IPv4, "enable_ipv6": of.PublicNet.IPv6}}
	if id := number(of.Placement); id != 0 {
		body["placement_group"] = id
	}
	made, err := hetznerapi.Create[hetznerapi.Server](ctx, c.Client, "servers", body)
	if made.ID != 0 && hetznerapi.IsActionFailed(err) {
		if endErr := c.Delete(ctx, hetznerapi.Path("servers", made.ID)); endErr != nil {
			return endErr
		}
	}
	return err
}

// maxPolls is how often a server that shuts down is looked at, which takes two and a half minutes: kubelet
// gives pods half a minute.
const maxPolls = 80

// endServer shuts a server down, as far as it obeys, and deletes it, which detaches its volumes. A protected
// one stays as it is.
func endServer(ctx context.Context, c *Client, s servers.Server) error {
	if s.Running && !s.Protected {
		if err := c.Act(ctx, s.ID, "shutdown", nil); err == nil {
			polls := 0
			_ = c.Await(ctx, func(ctx context.Context) (bool, error) { // it is deleted in any case
				polls++
				now, err := hetznerapi.Get[hetznerapi.Server](ctx, c.Client, s.ID)
				return err == nil && now.Status == "off" || polls == maxPolls, err
			})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return c.Delete(ctx, s.ID)
}
