package metal

import (
	"encoding/json"
	"fmt"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/metal/spec"
)

// builder holds the input and what all hosts refer to.
type builder struct {
	platform.Model
	groups map[string]*api.InstanceGroup
	// addresses are the control plane's; home is the address of the host that was enrolled first,
	// because another host would have none of the backups.
	addresses []string
	home      string
	folder    string
	// files are the addresses of all managed files, which hosts read when they start, and state
	// is their manifest.
	files []resource.Address
	state resource.Content
}

// buildModel adds the hosts of the inventory, and their entries in the cluster's store, to a
// graph that already contains the managed files.
func buildModel(in platform.Model, g *graph.Graph) error {
	b := &builder{Model: in, groups: map[string]*api.InstanceGroup{}}
	for _, group := range in.Groups {
		b.groups[group.Name] = group
	}
	var ok bool
	if b.folder, ok = managedfile.FolderOf(in.Cluster.Spec.ConfigStore.Base); !ok {
		return fmt.Errorf("the store %s is not a folder", in.Cluster.Spec.ConfigStore.Base)
	}
	byAge := slices.Clone(in.Hosts)
	slices.SortStableFunc(byAge, func(x, y *api.Host) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	for _, h := range byAge {
		if b.groups[h.Spec.InstanceGroup] == nil {
			return fault.Wrap(fault.Permanent, fmt.Errorf("the host %s is in the instance group %q, which does not exist", h.Name, h.Spec.InstanceGroup),
				"enroll it in another, or release it: kops delete host "+h.Name)
		}
		if err := b.entry(g, h); err != nil {
			return err
		}
		if b.isControlPlane(h) {
			b.addresses = append(b.addresses, address(h))
		}
	}
	if len(b.addresses) > 0 {
		b.home = b.addresses[0]
	}
	slices.Sort(b.addresses)
	listed, err := manifest(g)
	if err != nil {
		return err
	}
	b.state = resource.Text(resource.Lit(listed))
	for n := range g.All() {
		b.files = append(b.files, n.Address)
	}
	return b.hosts(g)
}

// isControlPlane reports whether a host belongs to the control plane.
func (b *builder) isControlPlane(h *api.Host) bool {
	return b.groups[h.Spec.InstanceGroup].IsControlPlane()
}

// entry registers a host, so that kops-controller recognizes it. The entry of a control-plane host
// has no key: such a host reads the files itself, and no one may join in its name.
func (b *builder) entry(g *graph.Graph, h *api.Host) error {
	m := bootstrap.Machine{Node: h.Name, InstanceGroup: h.Spec.InstanceGroup, PublicKey: h.Spec.PublicKey, Names: []string{h.Name, address(h)}}
	if b.isControlPlane(h) {
		m.PublicKey = ""
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("register the host %s: %w", h.Name, err)
	}
	at := managedfile.Buckets{}.Location(b.Cluster.Spec.ConfigStore.Base) // a folder
	return g.Add(at.Node("machine-"+h.Name, layout.MachineKey(h.Name), resource.Text(resource.Lit(string(text)+"\n")), false))
}

// hosts declares the hosts. Control-plane hosts come one after the other, so that a restarted
// one is ready before the next is restarted; workers come after them.
func (b *builder) hosts(g *graph.Graph) error {
	var before []resource.Address
	var workers []*api.Host
	for _, h := range b.Hosts {
		if !b.isControlPlane(h) {
			workers = append(workers, h)
			continue
		}
		n, err := b.server(h)
		if err == nil {
			n.After = slices.Concat(b.files, before)
			before = []resource.Address{n.Address}
			err = g.Add(n)
		}
		if err != nil {
			return err
		}
	}
	if len(workers) > 0 && len(b.addresses) == 0 {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the hosts of cluster %s are all workers", b.Cluster.Name), "enroll one in an instance group of the control plane")
	}
	for _, h := range workers {
		n, err := b.worker(h)
		if err == nil {
			n.After = slices.Concat(b.files, before)
			err = g.Add(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) server(h *api.Host) (resource.Node, error) {
	boot, err := b.UserData(b.groups[h.Spec.InstanceGroup])
	if err != nil {
		return resource.Node{}, err
	}
	want := Host{Cluster: b.Cluster.Name, Name: h.Name, Group: h.Spec.InstanceGroup, Boot: boot, State: b.state, Folder: b.folder, Peers: b.addresses, Home: b.home}
	for _, e := range b.Cluster.Spec.EtcdClusters {
		for i, m := range e.EtcdMembers {
			if m.InstanceGroup != nil && *m.InstanceGroup == h.Spec.InstanceGroup {
				want.Disks = append(want.Disks, onhost.Disk(b.Cluster.Name, e.Name, i))
			}
		}
	}
	return hosts.New(h.Name, want), nil
}

func (b *builder) worker(h *api.Host) (resource.Node, error) {
	var at []resource.Value
	if fixed, ok := spec.FixedAddress(b.Cluster); ok {
		at = resource.Lits(fixed)
	} else {
		at = resource.Lits(b.addresses...)
	}
	boot, err := b.UserData(b.groups[h.Spec.InstanceGroup], at...)
	if err != nil {
		return resource.Node{}, err
	}
	return hosts.New(h.Name, Host{Cluster: b.Cluster.Name, Name: h.Name, Group: h.Spec.InstanceGroup, Boot: boot}), nil
}
