package gce

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/compute/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// detachedLabel marks a machine in whose place its group has made another.
const detachedLabel = "kops-k8s-io-detached"

// groupsAsked is how many groups are asked for their machines at once.
const groupsAsked = 16

// machines asks for all groups of the project's region and for all instances of the cluster: two
// questions, however many machines there are, and one more for each group that is at work.
func machines(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	now, err := look(ctx, s.Client.(*kinds.Client), c)
	if err != nil {
		return nil, err
	}
	var out platform.Grouping
	for _, at := range slices.Sorted(maps.Keys(now.groups)) { // the same order, and the same trouble, each time
		m := now.groups[at]
		of := out.Of(m.instanceGroup)
		of.Target += int(m.TargetSize)
		of.Trouble = cmp.Or(of.Trouble, m.trouble)
	}
	for _, i := range now.instances {
		m := i.machine()
		mine := out.Of(m.Group)
		if i.surplus() {
			mine.Target--
		}
		mine.Machines = append(mine.Machines, m)
	}
	return out.Groups(), nil
}

// view is what there is of a cluster's machines.
type view struct {
	groups    map[string]*group // by the link of the manager
	instances []*instance
}

// group is a managed group of one zone.
type group struct {
	*compute.InstanceGroupManager
	instanceGroup string
	members       map[string]*compute.ManagedInstance // by name; nil where the group was not asked
	trouble       string
}

// instance is an instance and, but for one that no group has, its group.
type instance struct {
	*compute.Instance
	group *group
}

func look(ctx context.Context, c *kinds.Client, cluster *api.Cluster) (*view, error) {
	v := &view{groups: map[string]*group{}}
	managers, found, err := c.Machines(ctx, cluster.Name)
	if err != nil {
		return nil, err
	}
	for _, i := range found {
		v.instances = append(v.instances, &instance{Instance: i})
	}
	makers := map[string]string{} // the instance groups of managers, as their instances say
	for _, i := range v.instances {
		if by := gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy); by != "" {
			makers[link(by)] = i.Labels[gcecloud.GroupLabel]
		}
	}
	for _, m := range managers {
		name, ok := makers[link(m.SelfLink)]
		if !ok {
			name, ok = makes(m, cluster.Name)
		}
		if ok {
			v.groups[link(m.SelfLink)] = &group{InstanceGroupManager: m, instanceGroup: name}
		}
	}
	for _, i := range v.instances {
		i.group = v.groups[link(gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy))]
	}
	if err := v.ask(ctx, c); err != nil {
		return nil, err
	}
	for _, i := range v.instances {
		if i.group != nil && i.group.members != nil && i.member() == nil {
			i.group = nil // it says for ever who made it
		}
	}
	return v, nil
}

// makes reports of a group without machines whether it is a cluster's, by its name, and for which instance group.
func makes(m *compute.InstanceGroupManager, cluster string) (instanceGroup string, ok bool) {
	zone := path.Base(m.Zone)
	want := gcename.Group(m.BaseInstanceName, zone, cluster)
	return m.BaseInstanceName, m.Name == want
}

// ask asks the groups that are at work for their machines, those that may have let one go, and
// those that have machines of another template, which do not say so themselves.
func (v *view) ask(ctx context.Context, c *kinds.Client) error {
	var mu sync.Mutex
	asked, ctx := errgroup.WithContext(ctx)
	asked.SetLimit(groupsAsked)
	for _, g := range v.groups {
		if s := g.Status; s != nil && s.IsStable && v.made(g) <= g.TargetSize && (s.VersionTarget != nil && s.VersionTarget.IsReached || v.told(g)) {
			continue
		}
		asked.Go(func() error {
			found, err := c.Members(ctx, g.InstanceGroupManager)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			g.members = map[string]*compute.ManagedInstance{}
			for _, m := range found {
				g.members[path.Base(m.Instance)] = m
				g.trouble = cmp.Or(g.trouble, failure(m))
			}
			return nil
		})
	}
	return asked.Wait()
}

// made is how many of the machines that there are a group has made.
func (v *view) made(g *group) (n int64) {
	for _, i := range v.instances {
		if i.group == g {
			n++
		}
	}
	return n
}

// told reports whether all machines of a group say of which template they were made.
func (v *view) told(g *group) bool {
	return !slices.ContainsFunc(v.instances, func(i *instance) bool {
		return i.group == g && gceapi.Metadata(i.Metadata, gcecloud.MetadataTemplate) == ""
	})
}

// failure is what Google says of the last attempt to have a machine, such as that a quota is used up.
func failure(m *compute.ManagedInstance) string {
	if m.LastAttempt == nil || m.LastAttempt.Errors == nil {
		return ""
	}
	for _, e := range m.LastAttempt.Errors.Errors {
		if e.Message != "" {
			return e.Code + ": " + e.Message
		}
	}
	return ""
}

// machine is an instance; its node bears its name.
func (i *instance) machine() platform.Machine {
	m := platform.Machine{Name: i.Name, Node: i.Name, Group: i.Labels[gcecloud.GroupLabel], Zone: path.Base(i.Zone), Type: gceapi.Name(i.MachineType), State: i.Status, Running: i.Status == "RUNNING"}
	m.Created, _ = time.Parse(time.RFC3339, i.CreationTimestamp) // Google writes it so
	for _, n := range i.NetworkInterfaces {
		m.Addresses = append(m.Addresses, n.NetworkIP)
		for _, a := range n.AccessConfigs {
			m.Addresses = append(m.Addresses, a.NatIP)
		}
		m.Addresses = append(m.Addresses, n.Ipv6Address)
	}
	slices.Sort(m.Addresses)
	m.Addresses = slices.DeleteFunc(slices.Compact(m.Addresses), func(a string) bool { return a == "" })
	leaves := slices.Contains([]string{"STOPPING", "SUSPENDING", "TERMINATED"}, i.Status)
	if does := i.action(); does == "RECREATING" || i.let() {
		m.State, leaves = does, true // another takes its place without being asked for
	}
	m.Detached = i.marked() || leaves || i.group == nil
	m.Outdated = !leaves && (m.Detached || i.template() != link(i.group.InstanceTemplate))
	return m
}

// member is what an instance's group says of it; nil where the group was not asked, or there is none.
func (i *instance) member() *compute.ManagedInstance {
	if i.group == nil {
		return nil
	}
	return i.group.members[i.Name]
}

// action is what an instance's group is about to do with it, where it was asked.
func (i *instance) action() string {
	if in := i.member(); in != nil {
		return in.CurrentAction
	}
	return ""
}

// let reports whether a group counts an instance no longer in its size, though it is still there.
func (i *instance) let() bool { return i.action() == "DELETING" || i.action() == "ABANDONING" }

// marked reports whether another was made in an instance's place.
func (i *instance) marked() bool {
	_, ok := i.Labels[detachedLabel]
	return ok
}

// surplus reports whether a group counts an instance beside the one that was made in its place.
func (i *instance) surplus() bool { return i.group != nil && i.marked() && !i.let() }

// template is what an instance of a group was made of. One that says nothing, in a group that has
// machines of one template only, is of that.
func (i *instance) template() string {
	if in := i.member(); in != nil && in.Version != nil {
		return link(in.Version.InstanceTemplate)
	}
	if of := gceapi.Metadata(i.Metadata, gcecloud.MetadataTemplate); of != "" {
		return link(of)
	}
	return link(i.group.InstanceTemplate)
}

// link is what a link says of an object, whichever host and version of the API it names.
func link(l string) string {
	if _, after, ok := strings.Cut(l, "projects/"); ok {
		_, after, _ = strings.Cut(after, "/") // a project has a name and a number
		return after
	}
	return l
}

// bootRecord reads what an instance wrote on its first serial port, where its report stands, too;
// Google keeps the last MiB of it.
func bootRecord(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) (platform.BootRecord, error) {
	c := s.Client.(*kinds.Client)
	out, err := c.Compute.Instances.GetSerialPortOutput(c.Project, m.Zone, m.Name).Context(ctx).Do()
	if err != nil {
		return platform.BootRecord{}, fmt.Errorf("read the serial port of %s: %w", m.Name, gceapi.Bare(err))
	}
	return platform.BootRecord{Console: []byte(strings.ReplaceAll(out.Contents, "\r", ""))}, nil
}
