package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
)

// LoadBalancer is the load balancer of a cluster's API, or one that the cloud controller created for a
// Service, which is only ever deleted.
type LoadBalancer struct {
	Name     string `res:"forbid" tf:"name"`
	Type     string `res:"writeonly" tf:"load_balancer_type"` // users choose a larger one
	Location string `res:"forbid" tf:"location"`
	Public   bool   // whether it has a public address
	Labels   Labels `tf:"labels"`
	// Network is the network in which it reaches the servers, and Address its address there.
	Network resource.Value `res:",post"`
	Address string         `res:"writeonly"`
	// Selector selects the servers to which it sends connections.
	Selector string `res:",post"`
	Services Services
	// Subnet is the subnet without which Terraform could not attach it to the network.
	Subnet string `res:"writeonly"`

	ID string `res:"out,id" out:"id"`
}

// Services are the services of a load balancer, by their port.
type Services map[string]Service

// Foreign reports whether an unwanted service was not added by kops.
func (Services) Foreign(port string) bool {
	return !slices.ContainsFunc(access.DoorPorts(), func(p int) bool { return strconv.Itoa(p) == port })
}

// Service is a TCP port at which a load balancer serves, the port to which it sends connections, and how
// it finds out which servers accept them, with times in seconds.
type Service struct {
	Destination                int
	Interval, Timeout, Retries int
}

// LoadBalancers is the kind of LoadBalancer.
var LoadBalancers = resource.Kind[LoadBalancer, *Client]{
	Name:   "hcloud_load_balancer",
	API:    api,
	Tasks:  []string{"LoadBalancer"},
	Early:  true,
	Key:    func(b *LoadBalancer) string { return b.Name },
	List:   listBalancers,
	Create: createBalancer,
	Update: []resource.Setter[LoadBalancer, *Client]{
		{Fields: []string{"Network"}, Set: attachBalancer},
		{Fields: []string{"Selector"}, Set: func(ctx context.Context, c *Client, have, want *LoadBalancer) error {
			t, private := selecting(want.Selector), true
			t.UsePrivateIP = &private
			err := c.Act(ctx, have.ID, "add_target", t)
			if hetznerapi.HasCode(err, "target_already_defined") { // by an attempt whose response was lost
				return nil
			}
			return err
		}},
		{Fields: []string{"Services"}, Set: setServices},
		{Fields: []string{"Public"}, Set: func(ctx context.Context, c *Client, have, want *LoadBalancer) error {
			return c.Act(ctx, have.ID, map[bool]string{true: "enable_public_interface", false: "disable_public_interface"}[want.Public], nil)
		}},
		relabel(func(b *LoadBalancer) (string, Labels) { return b.ID, b.Labels }),
	},
	Delete:     func(ctx context.Context, c *Client, b *LoadBalancer) error { return c.Delete(ctx, b.ID) },
	Companions: balancerParts,
}

// Terraform's resources for the parts of a load balancer.
type (
	balancerNetwork struct {
		Balancer resource.Value `tf:"load_balancer_id"`
		Network  resource.Value `tf:"network_id"`
		Address  string         `tf:"ip"`
		Public   *bool          `tf:"enable_public_interface"`
	}
	balancerService struct {
		Balancer    resource.Value `tf:"load_balancer_id"`
		Protocol    string         `tf:"protocol"`
		Port        int            `tf:"listen_port"`
		Destination int            `tf:"destination_port"`
	}
	balancerTarget struct {
		Balancer resource.Value `tf:"load_balancer_id"`
		Type     string         `tf:"type"`
		Selector string         `tf:"label_selector"`
		Private  bool           `tf:"use_private_ip"`
	}
)

var (
	balancerNetworks = resource.Kind[balancerNetwork, *Client]{Name: "hcloud_load_balancer_network", API: api}
	balancerServices = resource.Kind[balancerService, *Client]{Name: "hcloud_load_balancer_service", API: api}
	balancerTargets  = resource.Kind[balancerTarget, *Client]{Name: "hcloud_load_balancer_target", API: api}
)

func balancerParts(a resource.Address, b *LoadBalancer) []resource.Node {
	id := resource.Out(a, "id")
	attached := balancerNetwork{Balancer: id, Network: b.Network, Address: b.Address}
	if !b.Public {
		attached.Public = &b.Public
	}
	network, target := balancerNetworks.New(b.Name, attached), balancerTargets.New(b.Name, balancerTarget{id, "label_selector", b.Selector, true})
	network.Needs, target.Needs = []resource.Address{Subnets.At(b.Subnet)}, []resource.Address{network.Address}
	out := []resource.Node{network, target}
	for _, port := range slices.Sorted(maps.Keys(b.Services)) {
		n, _ := strconv.Atoi(port) // the model writes numbers
		out = append(out, balancerServices.New(b.Name+"-tcp-"+port, balancerService{id, "tcp", n, b.Services[port].Destination}))
	}
	return out
}

func createBalancer(ctx context.Context, c *Client, b *LoadBalancer) error {
	services := []hetznerapi.BalancerService{}
	for port, s := range b.Services {
		services = append(services, s.request(port))
	}
	return create(ctx, c, "load_balancers", &b.ID, map[string]any{
		"name": b.Name, "load_balancer_type": b.Type, "location": b.Location, "public_interface": b.Public, "labels": b.Labels, "services": services,
		"algorithm": map[string]string{"type": "round_robin"}})
}

func (s Service) request(port string) hetznerapi.BalancerService {
	n, _ := strconv.Atoi(port) // the model writes numbers
	return hetznerapi.BalancerService{Protocol: "tcp", ListenPort: n, DestinationPort: s.Destination,
		HealthCheck: hetznerapi.HealthCheck{Protocol: "tcp", Port: s.Destination, Interval: s.Interval, Timeout: s.Timeout, Retries: s.Retries}}
}

// attachBalancer attaches a load balancer to its network, unless it is in another one, in which it may
// serve.
func attachBalancer(ctx context.Context, c *Client, have, want *LoadBalancer) error {
	if in := have.Network.Text(); in != "" {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the load balancer %s is attached to the network %d", have.Name, number(have.Network)),
			"detach it (hcloud load-balancer detach-from-network), and run the command again")
	}
	err := c.Act(ctx, have.ID, "attach_to_network", map[string]any{"network": number(want.Network), "ip": want.Address})
	if hetznerapi.HasCode(err, "load_balancer_already_attached") { // by an attempt whose response was lost
		return nil
	}
	return err
}

// setServices adds, changes and removes services.
func setServices(ctx context.Context, c *Client, have, want *LoadBalancer) error {
	for port, s := range want.Services {
		old, there := have.Services[port]
		if there && old == s {
			continue
		}
		action := map[bool]string{false: "add_service", true: "update_service"}[there]
		err := c.Act(ctx, have.ID, action, s.request(port))
		if err != nil && !hetznerapi.HasCode(err, "source_port_already_used") {
			return fmt.Errorf("port %s: %w", port, err)
		}
	}
	for port := range have.Services {
		n, _ := strconv.Atoi(port) // observed numbers
		if _, wanted := want.Services[port]; wanted || want.Services.Foreign(port) {
			continue
		}
		if err := c.Act(ctx, have.ID, "delete_service", map[string]any{"listen_port": n}); err != nil {
			return fmt.Errorf("port %s: %w", port, err)
		}
	}
	return nil
}

// listBalancers lists the load balancer of the API; with Scope.All also those of Services.
func listBalancers(ctx context.Context, c *Client, s resource.Scope) ([]*LoadBalancer, error) {
	out, err := ownList(ctx, c, "load_balancers", s.Cluster, balancerOf)
	if err != nil || !s.All {
		return out, err
	}
	machines, err := ownList(ctx, c, "servers", s.Cluster, func(m hetznerapi.Server) int64 { return m.ID })
	if err != nil {
		return nil, err
	}
	networks, err := ownList(ctx, c, "networks", s.Cluster, func(n hetznerapi.Network) int64 { return n.ID })
	if err != nil {
		return nil, err
	}
	all, err := list[hetznerapi.LoadBalancer](ctx, c, "load_balancers", hetznercloud.ServiceLabel)
	for _, b := range all {
		serves := slices.ContainsFunc(b.Targets, func(t hetznerapi.Target) bool { return t.Server != nil && slices.Contains(machines, t.Server.ID) })
		within := slices.ContainsFunc(b.PrivateNet, func(a hetznerapi.Attachment) bool { return slices.Contains(networks, a.Network) })
		if (serves || within) && b.Labels[hetznercloud.ClusterLabel] != s.Cluster {
			out = append(out, balancerOf(b))
		}
	}
	return out, err
}

// balancerOf converts a load balancer.
func balancerOf(a hetznerapi.LoadBalancer) *LoadBalancer {
	b := &LoadBalancer{Name: a.Name, Location: a.Location.Name, Public: a.PublicNet.Enabled, Labels: a.Labels, Services: Services{}, ID: hetznerapi.Path("load_balancers", a.ID)}
	for _, n := range a.PrivateNet {
		b.Network = reference("networks", n.Network)
	}
	b.Selector = selected(a.Targets, a.Labels[hetznercloud.ClusterLabel])
	for _, s := range a.Services {
		b.Services[strconv.Itoa(s.ListenPort)] = Service{s.DestinationPort, s.HealthCheck.Interval, s.HealthCheck.Timeout, s.HealthCheck.Retries}
	}
	return b
}
