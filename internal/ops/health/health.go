// Package health checks whether a cluster is in the state that its objects describe: each instance
// group has its machines, each machine is a node, each node is ready, the control plane responds,
// and critical components run.
//
// Judging is pure: Check takes what was observed. Observing an API server is separate. The package
// must not know any platform, the store or the terminal.
package health

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/platform"
)

// World is what was observed of a cluster at one time.
type World struct {
	Cluster string
	Groups  []*api.InstanceGroup
	// Etcd are the cluster's etcd clusters.
	Etcd []api.EtcdClusterSpec
	// Machines are the machines that the platform reports; Counted means that it can report them.
	Machines []platform.MachineGroup
	Counted  bool
	// API is what the API server reports.
	API Observation
	// Starts has, by the name of a machine, how far its start has come.
	Starts map[string]Start
	// Rolling has the machines that a rolling update is changing, by name, with their phase.
	Rolling map[string]string
	// MaxUnready is how many worker nodes may be unready. When more are unready, all of them count
	// as failures.
	MaxUnready int
}

// The findings, as programs receive them.
type (
	Failure    = status.Failure
	Node       = status.Node
	Validation = status.Validation
)

// Kinds of failures.
const (
	KindDNS     = status.KindDNS
	KindAPI     = status.KindAPI
	KindGroup   = status.KindGroup
	KindMachine = status.KindMachine
	KindNode    = status.KindNode
	KindPod     = status.KindPod
)

// Check judges a view of the cluster. Consequences of an API server that does not respond, such as
// machines without nodes, are not counted as failures of their own.
func Check(w World) *Validation {
	c := &check{World: w, byName: map[string]*corev1.Node{}, machineOf: map[string]platform.Machine{}, groups: map[string]*api.InstanceGroup{}}
	c.index()
	c.api()
	c.instanceGroups()
	if w.API.Problem == nil {
		c.nodes()
		c.pods()
	}
	return c.result()
}

// check is the state of one Check.
type check struct {
	World
	byName    map[string]*corev1.Node
	machineOf map[string]platform.Machine // by name of node
	groups    map[string]*api.InstanceGroup
	failures  []Failure
}

func (c *check) index() {
	for _, g := range c.Groups {
		c.groups[g.Name] = g
	}
	for i := range c.API.Nodes {
		c.byName[c.API.Nodes[i].Name] = &c.API.Nodes[i]
	}
	for _, g := range c.Machines {
		for _, m := range g.Machines {
			if n := NodeOf(m, c.API.Nodes); n != nil {
				c.machineOf[n.Name] = m
			}
		}
	}
}

// fail adds a failure. If it is about a machine or a node that a rolling update is changing, the
// message says so. The text stays the same for as long as the failure persists.
func (c *check) fail(f Failure) {
	f.Message = withoutVolatile(f.Message)
	machine := f.Name
	if f.Kind == KindNode {
		machine = c.machineOf[f.Name].Name
	}
	if phase := c.Rolling[machine]; phase != "" && (f.Kind == KindNode || f.Kind == KindMachine) {
		f.Message += "; a rolling update is changing the machine (" + phase + ")"
	}
	c.failures = append(c.failures, f)
}

// withoutVolatile removes what changes with each attempt and says nothing: the local address of a
// connection, which precedes an arrow.
func withoutVolatile(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if _, there, found := strings.Cut(word, "->"); found && there != "" {
			words[i] = there
		}
	}
	return strings.Join(words, " ")
}

// api reports what is wrong with the API server as a whole.
func (c *check) api() {
	if p := c.API.Problem; p != nil {
		c.fail(*p)
	}
	for _, name := range c.API.Unready {
		c.fail(Failure{Kind: KindAPI, Name: c.API.Server, Message: "it is not ready: its check " + name + " fails"})
	}
}

// result sorts the failures, removes duplicates, and lists the nodes.
func (c *check) result() *Validation {
	rank := []string{KindDNS, KindAPI, KindGroup, KindMachine, KindNode, KindPod}
	slices.SortFunc(c.failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(slices.Index(rank, a.Kind), slices.Index(rank, b.Kind)),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Group, b.Group))
	})
	v := &Validation{Failures: append([]Failure{}, slices.Compact(c.failures)...), Nodes: []Node{}}
	for _, n := range c.API.Nodes {
		v.Nodes = append(v.Nodes, describe(&n))
		if c.isLeaving(&n) {
			v.Leaving = append(v.Leaving, n.Name)
		}
	}
	slices.Sort(v.Leaving)
	slices.SortFunc(v.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return v
}
