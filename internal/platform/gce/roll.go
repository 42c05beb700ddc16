package gce

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/kinds"
)

// roll returns how instances are replaced. A group that recreates an instance gives the next one
// its name, under which the old one's node is still known; so the successor is made first, under a
// name that follows from the old one's, and then the old one is deleted, which makes the group
// smaller by one again. A roll that was interrupted in between finds the successor there.
func roll() platform.Roll {
	return platform.Roll{Surge: 1, Refills: true, Made: made, Detach: detach, Deregister: deregister, Terminate: terminate}
}

// detach has an instance's group make its successor. The label comes after it: who is cut off in
// between leaves a machine more, and never one less.
func detach(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) error {
	c := s.Client.(*kinds.Client)
	i, err := instanceNamed(ctx, c, m)
	if err != nil {
		return fmt.Errorf("detach the instance %s: %w", m.Name, err)
	}
	if i.marked() {
		return nil
	}
	manager, members, err := i.kept(ctx, c)
	if err != nil {
		return fmt.Errorf("detach the instance %s: %w", m.Name, err)
	}
	if manager == "" {
		return fault.New(fault.Permanent, "detach the instance %s: no instance group keeps it that would make another in its place", m.Name)
	}
	if err := succeed(ctx, c, m, manager, members); err != nil {
		return err
	}
	labels := map[string]string{}
	maps.Copy(labels, i.Labels)
	labels[detachedLabel] = "true"
	if err := c.Done(ctx)(c.Compute.Instances.SetLabels(c.Project, m.Zone, m.Name, &compute.InstancesSetLabelsRequest{Labels: labels, LabelFingerprint: i.LabelFingerprint}).Context(ctx).Do()); err != nil {
		return fmt.Errorf("label the instance %s: %w", m.Name, err)
	}
	return nil
}

// terminate ends an instance for good, and has its group have another, if it has none in its place yet.
func terminate(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) error {
	c := s.Client.(*kinds.Client)
	i, err := instanceNamed(ctx, c, m)
	if fault.Is(err, fault.Gone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("terminate the instance %s: %w", m.Name, err)
	}
	manager, members, err := i.kept(ctx, c)
	if err != nil {
		return fmt.Errorf("terminate the instance %s: %w", m.Name, err)
	}
	if manager == "" {
		return fault.IgnoreGone(c.Done(ctx)(c.Compute.Instances.Delete(c.Project, m.Zone, m.Name).Context(ctx).Do()))
	}
	if !i.marked() {
		if err := succeed(ctx, c, m, manager, members); err != nil {
			return err
		}
	}
	if err := fault.IgnoreGone(c.Done(ctx)(c.Compute.InstanceGroupManagers.DeleteInstances(c.Project, m.Zone, manager,
		&compute.InstanceGroupManagersDeleteInstancesRequest{Instances: []string{"zones/" + m.Zone + "/instances/" + m.Name}, SkipInstancesOnValidationError: true}).Context(ctx).Do())); err != nil {
		return fmt.Errorf("delete the instance %s of the group %s: %w", m.Name, manager, err)
	}
	return nil
}

// kept returns the group that keeps an instance, and the names of all that it keeps; "" where none does.
func (i *instance) kept(ctx context.Context, c *kinds.Client) (manager string, names []string, err error) {
	manager = path.Base(gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy))
	if manager == "." {
		return "", nil, nil
	}
	members, err := c.Members(ctx, &compute.InstanceGroupManager{Name: manager, Zone: i.Zone})
	if err := fault.IgnoreGone(err); err != nil {
		return "", nil, err
	}
	for _, in := range members {
		names = append(names, path.Base(in.Instance))
	}
	if !slices.Contains(names, i.Name) {
		return "", nil, nil
	}
	return manager, names, nil
}

// succeed has a group make the successor of an instance, if it is not among its machines.
func succeed(ctx context.Context, c *kinds.Client, m platform.Machine, manager string, members []string) error {
	name := successor(m.Name)
	if slices.Contains(members, name) {
		return nil
	}
	if err := c.Done(ctx)(c.Compute.InstanceGroupManagers.CreateInstances(c.Project, m.Zone, manager,
		&compute.InstanceGroupManagersCreateInstancesRequest{Instances: []*compute.PerInstanceConfig{{Name: name}}}).Context(ctx).Do()); err != nil {
		return fmt.Errorf("make a successor of %s: %w", m.Name, err)
	}
	return nil
}

const (
	// suffix is how many characters a successor's name ends in.
	suffix = 6
	// nameMax is the most characters of the name of an instance (RFC 1035).
	nameMax = 63
)

// successor is the name of the instance that takes the place of another: it differs from it, and
// two of one group have different successors.
func successor(of string) string {
	base := of[:min(max(strings.LastIndex(of, "-"), 0), nameMax-1-suffix)]
	sum := sha256.Sum256([]byte(of))
	end := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:suffix]
	return strings.TrimPrefix(base+"-"+end, "-")
}

// deregister takes an instance out of the target pools of its group. Behind an internal balancer is
// the whole group: an API server that ends answers the balancer's question no longer, and goes on
// to serve meanwhile. The only machine with an API server stays: nobody else would answer.
func deregister(ctx context.Context, s *platform.Session, cluster *api.Cluster, m platform.Machine) error {
	c := s.Client.(*kinds.Client)
	now, err := look(ctx, c, cluster)
	if err != nil {
		return err
	}
	for _, i := range now.instances {
		if i.Name != m.Name || i.group == nil {
			continue
		}
		for _, pool := range i.group.TargetPools {
			if err := leave(ctx, c, path.Base(pool), i.Instance); err != nil {
				return fmt.Errorf("take the instance %s out of the target pool %s: %w", m.Name, path.Base(pool), err)
			}
		}
	}
	return nil
}

// leave takes an instance out of a target pool, unless it is the only one there.
func leave(ctx context.Context, c *kinds.Client, pool string, i *compute.Instance) error {
	p, err := gceapi.Got(c.Compute.TargetPools.Get(c.Project, c.Region, pool).Context(ctx).Do())
	if err != nil {
		return fault.IgnoreGone(err)
	}
	if len(p.Instances) <= 1 || !slices.ContainsFunc(p.Instances, func(is string) bool { return link(is) == link(i.SelfLink) }) {
		return nil
	}
	return fault.IgnoreGone(c.Done(ctx)(c.Compute.TargetPools.RemoveInstance(c.Project, c.Region, pool,
		&compute.TargetPoolsRemoveInstanceRequest{Instances: []*compute.InstanceReference{{Instance: i.SelfLink}}}).Context(ctx).Do()))

}

func instanceNamed(ctx context.Context, c *kinds.Client, m platform.Machine) (*instance, error) {
	i, err := c.Compute.Instances.Get(c.Project, m.Zone, m.Name).Context(ctx).Do()
	return &instance{Instance: i}, gceapi.Bare(err)
}
