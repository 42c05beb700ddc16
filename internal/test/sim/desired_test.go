package sim

import (
	"fmt"
	"math/rand/v2"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// graphBuilder builds random graphs. The graphs of one seed share names, so that
// each edit changes, replaces, adds and removes.
type graphBuilder struct {
	*rand.Rand
	g      *graph.Graph
	shared string // the identifier of a network created by someone else
	moved  bool   // subnets have other names, but the same ranges
}

func (d *graphBuilder) tags() map[string]string {
	switch d.IntN(3) {
	case 0:
		return nil
	case 1:
		return map[string]string{"env": fmt.Sprint(d.IntN(2))}
	}
	return map[string]string{"env": "0", "team": fmt.Sprint(d.IntN(2))}
}

func (d *graphBuilder) add(n resource.Node) resource.Node {
	if err := d.g.Add(n); err != nil {
		panic(err)
	}
	return n
}

// graph returns a desired graph; one in twelve is empty.
func (d *graphBuilder) graph() *graph.Graph {
	d.g, d.moved = &graph.Graph{}, d.IntN(8) == 0
	if d.IntN(12) == 0 {
		return d.g
	}
	d.volumes()
	net := d.network()
	subnets := d.subnets(net)
	d.routes(net)
	d.groups(subnets)
	return d.g
}

func (d *graphBuilder) network() resource.Node {
	if d.IntN(6) == 0 {
		return d.add(SharedNetwork("main", d.shared))
	}
	return d.add(NewNetwork(Network{Name: "main", CIDR: fmt.Sprintf("10.%d.0.0/16", max(0, d.IntN(6)-4)), DNS: d.IntN(2) == 0, Tags: d.tags()}))
}

func (d *graphBuilder) subnets(net resource.Node) (out []resource.Value) {
	prefix := "s"
	if d.moved {
		prefix = "x"
	}
	for i := range d.IntN(4) {
		zone := "a"
		if d.IntN(60) == 0 {
			zone = "b" // not allowed for an existing one
		}
		s := d.add(NewSubnet(Subnet{Name: fmt.Sprint(prefix, i), Network: net.Out("id"), CIDR: fmt.Sprintf("10.0.%d.0/24", i+10*max(0, d.IntN(8)-6)),
			Zone: zone, Public: d.IntN(2) == 0, Tags: d.tags()}))
		out = append(out, s.Out("id"))
		for p := range d.IntN(3) {
			d.add(NewRule(fmt.Sprintf("s%d-%d", i, p), Rule{Subnet: s.Out("id"), Port: 80 + p, Note: fmt.Sprint(d.IntN(2))}))
		}
	}
	return out
}

func (d *graphBuilder) routes(net resource.Node) {
	var targets []resource.Value
	for i := range d.IntN(3) {
		targets = append(targets, d.add(NewGateway(Gateway{Name: fmt.Sprint("gw", i), Network: net.Out("id")})).Out("id"))
	}
	for i := range d.IntN(3) {
		if len(targets) > 0 {
			d.add(NewRoute(Route{Name: fmt.Sprint("r", i), Network: net.Out("id"), Target: targets[d.IntN(len(targets))]}))
		}
	}
}

func (d *graphBuilder) groups(subnets []resource.Value) {
	if d.moved { // a subnet that a group still uses cannot make room for another
		subnets = nil
	}
	for i := range d.IntN(3) {
		t := d.add(NewTemplate(Template{Name: fmt.Sprint("t", i), Image: fmt.Sprint("image", d.IntN(3)), Script: resource.Text(resource.Lit(fmt.Sprint("boot ", d.IntN(2))))}))
		if d.IntN(4) > 0 {
			g := NewGroup(Group{Name: fmt.Sprint("g", i), Template: t.Out("id"), Version: t.Out("version"), Subnets: subnets[:d.IntN(len(subnets)+1)], Size: d.IntN(3)})
			d.add(g)
		}
	}
}

func (d *graphBuilder) volumes() {
	for i := range d.IntN(3) {
		v := NewVolume(Volume{Name: fmt.Sprint("v", i), Zone: fmt.Sprint("z", max(0, d.IntN(5)-3)), Size: 1 + d.IntN(2), Encrypted: d.IntN(2) == 0, Tags: d.tags()})
		if d.IntN(3) == 0 {
			v.Want.(*Volume).Type = []string{"ssd", "disk"}[d.IntN(2)]
		}
		d.add(v)
	}
}
