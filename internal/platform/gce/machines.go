package gce

import (
	"cmp"
	"context"
	"fmt"
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
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// What marks the machines of a cluster.
const (
	clusterLabel = "k8s-io-cluster-name"
	groupLabel   = "k8s-io-instance-group"
	// detachedLabel marks a machine in whose place its group has made another.
	detachedLabel = "kops-k8s-io-detached"
	// creator and origin are the metadata in which an instance says what group made it, and of which
	// template.
	creator, origin = "created-by", "instance-template"
)

const (
	// pageSize is the most objects in one answer (Compute Engine API, maxResults).
	pageSize = 500
	// groupsAsked is how many groups are asked for their machines at once.
	groupsAsked = 16
)

// machines asks for all groups of the project's region and for all instances of the cluster: two
// questions, however many machines there are, and one more for each group that is at work.
func machines(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	now, err := look(ctx, s.Client.(*kinds.Client), c)
	if err != nil {
		return nil, err
	}
	var out []platform.MachineGroup
	at := map[string]int{}
	group := func(name string) *platform.MachineGroup {
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, platform.MachineGroup{Name: name})
		}
		return &out[i]
	}
	for _, m := range now.groups {
		of := group(m.instanceGroup)
		of.Target += int(m.TargetSize)
		of.Trouble = cmp.Or(of.Trouble, m.trouble)
	}
	for _, i := range now.instances {
		m := now.machine(i)
		mine := group(m.Group)
		if m.Detached && i.group != nil {
			mine.Target-- // the group counts it until it is deleted
		}
		mine.Machines = append(mine.Machines, m)
	}
	for _, g := range out {
		slices.SortFunc(g.Machines, func(a, b platform.Machine) int { return strings.Compare(a.Name, b.Name) })
	}
	return out, nil
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
	var managers []*compute.InstanceGroupManager
	both, part := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		managers, err = managersOf(part, c)
		return err
	})
	both.Go(func() (err error) {
		v.instances, err = instancesOf(part, c, cluster.Name)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	makers := map[string]string{} // the instance groups of managers, as their instances say
	for _, i := range v.instances {
		if by := metadata(i.Metadata, creator); by != "" {
			makers[link(by)] = i.Labels[groupLabel]
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
		i.group = v.groups[link(metadata(i.Metadata, creator))]
	}
	return v, v.ask(ctx, c)
}

// makes reports of a group without machines whether it is a cluster's, by its name, and for which instance group.
func makes(m *compute.InstanceGroupManager, cluster string) (instanceGroup string, ok bool) {
	zone := path.Base(m.Zone)
	want := gcename.Group(m.BaseInstanceName, zone, cluster)
	return m.BaseInstanceName, m.Name == want
}

// managersOf lists the groups of the region's zones.
func managersOf(ctx context.Context, c *kinds.Client) ([]*compute.InstanceGroupManager, error) {
	var out []*compute.InstanceGroupManager
	err := c.Compute.InstanceGroupManagers.AggregatedList(c.Project).MaxResults(pageSize).Pages(ctx, func(page *compute.InstanceGroupManagerAggregatedList) error {
		for _, in := range page.Items {
			for _, m := range in.InstanceGroupManagers {
				if inRegion(m.Zone, c.Region) {
					out = append(out, m)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the instance groups of %s: %w", c.Project, gceapi.Bare(err))
	}
	slices.SortFunc(out, func(a, b *compute.InstanceGroupManager) int { return strings.Compare(a.SelfLink, b.SelfLink) })
	return out, nil
}

// instancesOf lists a cluster's instances, by their label.
func instancesOf(ctx context.Context, c *kinds.Client, cluster string) ([]*instance, error) {
	var out []*instance
	filter := fmt.Sprintf("labels.%s = %q", clusterLabel, gcename.Label(cluster))
	err := c.Compute.Instances.AggregatedList(c.Project).Filter(filter).MaxResults(pageSize).Pages(ctx, func(page *compute.InstanceAggregatedList) error {
		for _, in := range page.Items {
			for _, i := range in.Instances {
				if inRegion(i.Zone, c.Region) {
					out = append(out, &instance{Instance: i})
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the instances of %s: %w", cluster, gceapi.Bare(err))
	}
	slices.SortFunc(out, func(a, b *instance) int { return strings.Compare(a.SelfLink, b.SelfLink) })
	return out, nil
}

// ask asks the groups that are at work for their machines, and those that have machines of
// another template, which do not say so themselves.
func (v *view) ask(ctx context.Context, c *kinds.Client) error {
	var mu sync.Mutex
	asked, ctx := errgroup.WithContext(ctx)
	asked.SetLimit(groupsAsked)
	for _, g := range v.groups {
		if s := g.Status; s != nil && s.IsStable && (s.VersionTarget != nil && s.VersionTarget.IsReached || v.told(g)) {
			continue
		}
		asked.Go(func() error {
			found, err := managed(ctx, c, g.InstanceGroupManager)
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

// told reports whether all machines of a group say of which template they were made.
func (v *view) told(g *group) bool {
	return !slices.ContainsFunc(v.instances, func(i *instance) bool { return i.group == g && metadata(i.Metadata, origin) == "" })
}

// managed are the machines that a group has, or is about to have.
func managed(ctx context.Context, c *kinds.Client, m *compute.InstanceGroupManager) ([]*compute.ManagedInstance, error) {
	var out []*compute.ManagedInstance
	err := c.Compute.InstanceGroupManagers.ListManagedInstances(c.Project, path.Base(m.Zone), m.Name).MaxResults(pageSize).Pages(ctx,
		func(page *compute.InstanceGroupManagersListManagedInstancesResponse) error {
			out = append(out, page.ManagedInstances...)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list the machines of the instance group %s: %w", m.Name, gceapi.Bare(err))
	}
	return out, nil
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
func (v *view) machine(i *instance) platform.Machine {
	m := platform.Machine{Name: i.Name, Node: i.Name, Group: i.Labels[groupLabel], Zone: path.Base(i.Zone), State: i.Status, Running: i.Status == "RUNNING"}
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
	_, m.Detached = i.Labels[detachedLabel]
	in := i.member()
	leaves := slices.Contains([]string{"STOPPING", "SUSPENDING", "TERMINATED"}, i.Status)
	if in != nil && slices.Contains([]string{"ABANDONING", "DELETING", "RECREATING"}, in.CurrentAction) {
		m.State, leaves = in.CurrentAction, true // another takes its place without being asked for
	}
	m.Detached = m.Detached || leaves || i.group == nil
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

// template is what an instance of a group was made of. One that says nothing, in a group that has
// machines of one template only, is of that.
func (i *instance) template() string {
	if in := i.member(); in != nil && in.Version != nil {
		return link(in.Version.InstanceTemplate)
	}
	if of := metadata(i.Metadata, origin); of != "" {
		return link(of)
	}
	return link(i.group.InstanceTemplate)
}

// inRegion reports whether a zone, or its link, is in a region.
func inRegion(zone, region string) bool {
	return region == "" || strings.HasPrefix(path.Base(zone), region+"-")
}

// link is what a link says of an object, whichever host and version of the API it names.
func link(l string) string {
	if _, after, ok := strings.Cut(l, "projects/"); ok {
		_, after, _ = strings.Cut(after, "/") // a project has a name and a number
		return after
	}
	return l
}

// metadata is the value of a key of an instance's metadata, or "".
func metadata(m *compute.Metadata, key string) string {
	if m == nil {
		return ""
	}
	for _, i := range m.Items {
		if i.Key == key && i.Value != nil {
			return *i.Value
		}
	}
	return ""
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
