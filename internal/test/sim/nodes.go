package sim

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// Cluster owns all created objects.
const Cluster = "a.example.com"

var (
	networks = kind("network", spec[Network]{
		key: func(n *Network) string { return n.Name }, id: func(n *Network) *string { return &n.ID },
		initial: func(n *Network) { n.DNS = true }})
	subnets = kind("subnet", spec[Subnet]{
		key: func(s *Subnet) string { return s.Name }, id: func(s *Subnet) *string { return &s.ID }})
	gateways = kind("gateway", spec[Gateway]{slow: true,
		key: func(g *Gateway) string { return g.Name }, id: func(g *Gateway) *string { return &g.ID }})
	routes = kind("route", spec[Route]{
		key: func(r *Route) string { return r.Name }, id: func(r *Route) *string { return &r.ID }})
	rules = kind("rule", spec[Rule]{
		key: ruleKey, id: func(r *Rule) *string { return &r.ID },
		grants: func(r *Rule) bool { return r.Port%2 == 1 }})
	templates = kind("template", spec[Template]{createFirst: true,
		key: func(t *Template) string { return t.Name }, id: func(t *Template) *string { return &t.ID },
		choose:  func(t *Template) { t.Version = 1 },
		changed: func(stored, have *Template) { stored.Version++; have.Version = stored.Version }})
	groups = kind("group", spec[Group]{
		key: func(g *Group) string { return g.Name }, id: func(g *Group) *string { return &g.ID }})
	volumes = kind("volume", spec[Volume]{
		key: func(v *Volume) string { return v.Name }, id: func(v *Volume) *string { return &v.ID },
		choose: func(v *Volume) {
			if v.Type == "" {
				v.Type = "ssd"
			}
		},
		holds: func(v *Volume) string {
			if v.Size == 0 {
				return ""
			}
			return fmt.Sprintf("%d GiB of data", v.Size)
		}})
	images = kind("image", spec[Image]{
		key: func(i *Image) string { return i.Content }, id: func(i *Image) *string { return &i.ID },
		idle: func(i *Image) bool { return i.Idle }})
)

// Kinds returns the toy kinds.
func Kinds() []resource.Any {
	return []resource.Any{networks.Erase(), subnets.Erase(), gateways.Erase(), routes.Erase(), rules.Erase(), templates.Erase(), groups.Erase(), volumes.Erase(), images.Erase()}
}

// NewNetwork declares a network.
func NewNetwork(n Network) resource.Node { return networks.New(n.Name, n) }

// SharedNetwork declares an existing network, by its identifier.
func SharedNetwork(name, id string) resource.Node {
	return networks.Adopt(name, id, Network{Name: name})
}

// NewSubnet declares a subnet.
func NewSubnet(s Subnet) resource.Node { return subnets.New(s.Name, s) }

// NewGateway declares a gateway.
func NewGateway(g Gateway) resource.Node { return gateways.New(g.Name, g) }

// NewRoute declares a route.
func NewRoute(r Route) resource.Node { return routes.New(r.Name, r) }

// NewRule declares a rule, which needs a name only here.
func NewRule(name string, r Rule) resource.Node { return rules.New(name, r) }

// NewTemplate declares a template.
func NewTemplate(t Template) resource.Node { return templates.New(t.Name, t) }

// NewGroup declares a group.
func NewGroup(g Group) resource.Node { return groups.New(g.Name, g) }

// NewVolume declares a volume.
func NewVolume(v Volume) resource.Node { return volumes.New(v.Name, v) }

// Put puts an object of another owner, or without an owner, into the world, unchanged. It
// returns the object's identifier.
func (w *World) Put(owner string, n resource.Node) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	id := fmt.Sprintf("%s-%d", n.Address.Kind, w.seq)
	schema := n.Kind.Schema()
	got := schema.Clone(n.Want)
	reflect.ValueOf(got).Elem().FieldByName("ID").SetString(id)
	w.things[id] = &storedObject{kind: n.Address.Kind, name: n.Kind.KeyOf(got), id: id, owner: owner, schema: schema, got: got}
	return id
}

// Clock returns the machine's clock. In a testing/synctest bubble, in which the
// tests of the engine run, it takes no time: the bubble's clock jumps when all
// goroutines are blocked.
func Clock() exec.Clock {
	return exec.Clock{
		Now: time.Now,
		Sleep: func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Jitter: func() float64 { return 0.5 },
	}
}

// Observer returns an observer of the world.
func (w *World) Observer(c exec.Clock) *observe.Observer {
	return &observe.Observer{Client: func(string) any { return w }, Sleep: c.Sleep}
}

// noJournal discards everything.
type noJournal struct{}

func (noJournal) Begin(context.Context, plan.Step) error      { return nil }
func (noJournal) End(context.Context, plan.Step, error) error { return nil }

// Executor returns an executor on the world. scope defines what its listings return.
func (w *World) Executor(c exec.Clock, scope func(kind string) resource.Scope) *exec.Executor {
	o := w.Observer(c)
	return &exec.Executor{
		Client: func(string) any { return w },
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			return o.List(ctx, k, scope(k.KindName()))
		},
		Journal: noJournal{}, Limits: exec.NewLimits(nil, 4), Clock: c,
	}
}
