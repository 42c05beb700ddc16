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

// detachedLabel marks a machine whose group has already created its replacement.
const detachedLabel = "kops-k8s-io-detached"

// parallelGroups is the number of groups whose machines are listed concurrently.
const parallelGroups = 16

// listMachines lists all groups of the project's region and all instances of the cluster: two requests,
// however many machines there are, and one more for each group that is changing.
func listMachines(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	now, err := loadView(ctx, s.Client.(*kinds.Client), c)
	if err != nil {
		return nil, err
	}
	var out platform.Grouping
	for _, at := range slices.Sorted(maps.Keys(now.groups)) { // sorted, so that the order and the reported trouble are stable
		m := now.groups[at]
		of := out.Group(m.instanceGroup)
		of.Target += int(m.TargetSize)
		of.Trouble = cmp.Or(of.Trouble, m.trouble)
	}
	for _, i := range now.instances {
		m := i.toMachine()
		mine := out.Group(m.Group)
		if i.isSurplus() {
			mine.Target--
		}
		mine.Machines = append(mine.Machines, m)
	}
	return out.Groups(), nil
}

// view is the current state of a cluster's machines.
type view struct {
	groups    map[string]*group // by the link of the manager
	instances []*instance
}

// group is a managed group of one zone.
type group struct {
	*compute.InstanceGroupManager
	instanceGroup string
	members       map[string]*compute.ManagedInstance // by name; nil if the group was not queried
	trouble       string
}

// instance is an instance and its group, nil if it is in no group.
type instance struct {
	*compute.Instance
	group *group
}

func loadView(ctx context.Context, c *kinds.Client, cluster *api.Cluster) (*view, error) {
	v := &view{groups: map[string]*group{}}
	managers, found, err := c.Machines(ctx, cluster.Name)
	if err != nil {
		return nil, err
	}
	for _, i := range found {
		v.instances = append(v.instances, &instance{Instance: i})
	}
	makers := map[string]string{} // the instance groups by manager, according to their instances
	for _, i := range v.instances {
		if by := gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy); by != "" {
			makers[link(by)] = i.Labels[gcecloud.GroupLabel]
		}
	}
	for _, m := range managers {
		name, ok := makers[link(m.SelfLink)]
		if !ok {
			name, ok = ownInstanceGroup(m, cluster.Name)
		}
		if ok {
			v.groups[link(m.SelfLink)] = &group{InstanceGroupManager: m, instanceGroup: name}
		}
	}
	for _, i := range v.instances {
		i.group = v.groups[link(gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy))]
	}
	if err := v.listMembers(ctx, c); err != nil {
		return nil, err
	}
	for _, i := range v.instances {
		if i.group != nil && i.group.members != nil && i.member() == nil {
			i.group = nil // its metadata still names the group that created it
		}
	}
	return v, nil
}

// ownInstanceGroup reports whether a group without machines is the cluster's, according to its name, and
// returns its instance group.
func ownInstanceGroup(m *compute.InstanceGroupManager, cluster string) (instanceGroup string, ok bool) {
	zone := path.Base(m.Zone)
	want := gcename.Group(m.BaseInstanceName, zone, cluster)
	return m.BaseInstanceName, m.Name == want
}

// listMembers lists the members of the groups that are changing, of those that may have abandoned a
// machine, and of those whose machines may have different templates without recording which.
func (v *view) listMembers(ctx context.Context, c *kinds.Client) error {
	var mu sync.Mutex
	queries, ctx := errgroup.WithContext(ctx)
	queries.SetLimit(parallelGroups)
	for _, g := range v.groups {
		if s := g.Status; s != nil && s.IsStable && v.countCreated(g) <= g.TargetSize && (s.VersionTarget != nil && s.VersionTarget.IsReached || v.recordsTemplates(g)) {
			continue
		}
		queries.Go(func() error {
			found, err := c.Members(ctx, g.InstanceGroupManager)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			g.members = map[string]*compute.ManagedInstance{}
			for _, m := range found {
				g.members[path.Base(m.Instance)] = m
				g.trouble = cmp.Or(g.trouble, lastFailure(m))
			}
			return nil
		})
	}
	return queries.Wait()
}

// countCreated returns the number of existing machines that a group created.
func (v *view) countCreated(g *group) (n int64) {
	for _, i := range v.instances {
		if i.group == g {
			n++
		}
	}
	return n
}

// recordsTemplates reports whether all machines of a group record the template they were created from.
func (v *view) recordsTemplates(g *group) bool {
	return !slices.ContainsFunc(v.instances, func(i *instance) bool {
		return i.group == g && gceapi.Metadata(i.Metadata, gcecloud.MetadataTemplate) == ""
	})
}

// lastFailure returns Google's error from the last attempt to create a machine, such as an exhausted
// quota.
func lastFailure(m *compute.ManagedInstance) string {
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

// toMachine converts an instance; its node has the same name.
func (i *instance) toMachine() platform.Machine {
	m := platform.Machine{Name: i.Name, Node: i.Name, Group: i.Labels[gcecloud.GroupLabel], Zone: path.Base(i.Zone), Type: gceapi.Name(i.MachineType), State: i.Status, Running: i.Status == "RUNNING"}
	m.Created, _ = time.Parse(time.RFC3339, i.CreationTimestamp) // Google uses this format
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
	if does := i.action(); does == "RECREATING" || i.isReleased() {
		m.State, leaves = does, true // it will be replaced without further action
	}
	m.Detached = i.hasReplacement() || leaves || i.group == nil
	m.Outdated = !leaves && (m.Detached || i.template() != link(i.group.InstanceTemplate))
	return m
}

// member returns an instance as its group lists it; nil if the group was not queried, or there is
// none.
func (i *instance) member() *compute.ManagedInstance {
	if i.group == nil {
		return nil
	}
	return i.group.members[i.Name]
}

// action returns what an instance's group is doing with it; "" if the group was not queried.
func (i *instance) action() string {
	if in := i.member(); in != nil {
		return in.CurrentAction
	}
	return ""
}

// isReleased reports whether a group no longer counts an instance in its size, although it still exists.
func (i *instance) isReleased() bool { return i.action() == "DELETING" || i.action() == "ABANDONING" }

// hasReplacement reports whether an instance's replacement was created.
func (i *instance) hasReplacement() bool {
	_, ok := i.Labels[detachedLabel]
	return ok
}

// isSurplus reports whether a group counts an instance in addition to its replacement.
func (i *instance) isSurplus() bool { return i.group != nil && i.hasReplacement() && !i.isReleased() }

// template returns the template from which an instance of a group was created. If the instance does
// not record it, it is the group's current one, because such a group has machines of only one
// template.
func (i *instance) template() string {
	if in := i.member(); in != nil && in.Version != nil {
		return link(in.Version.InstanceTemplate)
	}
	if of := gceapi.Metadata(i.Metadata, gcecloud.MetadataTemplate); of != "" {
		return link(of)
	}
	return link(i.group.InstanceTemplate)
}

// link returns the part of a link that identifies an object, without the host, the API version and
// the project.
func link(l string) string {
	if _, after, ok := strings.Cut(l, "projects/"); ok {
		_, after, _ = strings.Cut(after, "/") // a project may be given by name or by number
		return after
	}
	return l
}

// bootRecord reads the output of an instance's first serial port, which includes its boot report;
// Google keeps the last MiB.
func bootRecord(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) (platform.BootRecord, error) {
	c := s.Client.(*kinds.Client)
	out, err := c.Compute.Instances.GetSerialPortOutput(c.Project, m.Zone, m.Name).Context(ctx).Do()
	if err != nil {
		return platform.BootRecord{}, fmt.Errorf("read the serial port of %s: %w", m.Name, gceapi.PlainError(err))
	}
	return platform.BootRecord{Console: []byte(strings.ReplaceAll(out.Contents, "\r", ""))}, nil
}
