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

// roll returns how instances are replaced. A group that recreates an instance reuses its name,
// under which the old node is still registered. So the successor is created first, under a name
// derived from the old one's; deleting the old instance then shrinks the group by one again. A roll
// that was interrupted in between finds the successor.
func roll() platform.Roll {
	return platform.Roll{Surge: 1, Refills: true, Drift: drift, Detach: detach, Deregister: deregister, Terminate: terminate}
}

// detach makes an instance's group create its successor, and then sets the label: an interruption
// in between leaves one machine too many, never one too few.
func detach(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) error {
	c := s.Client.(*kinds.Client)
	i, err := getInstance(ctx, c, m)
	if err != nil {
		return fmt.Errorf("detach the instance %s: %w", m.Name, err)
	}
	if i.hasReplacement() {
		return nil
	}
	manager, members, err := i.findManager(ctx, c)
	if err != nil {
		return fmt.Errorf("detach the instance %s: %w", m.Name, err)
	}
	if manager == "" {
		return fault.New(fault.Permanent, "detach the instance %s: it belongs to no instance group that would replace it", m.Name)
	}
	if err := createSuccessor(ctx, c, m, manager, members); err != nil {
		return err
	}
	labels := map[string]string{}
	maps.Copy(labels, i.Labels)
	labels[detachedLabel] = "true"
	if err := c.Await(ctx)(c.Compute.Instances.SetLabels(c.Project, m.Zone, m.Name, &compute.InstancesSetLabelsRequest{Labels: labels, LabelFingerprint: i.LabelFingerprint}).Context(ctx).Do()); err != nil {
		return fmt.Errorf("label the instance %s: %w", m.Name, err)
	}
	return nil
}

// terminate deletes an instance, and makes its group create a successor if there is none yet.
func terminate(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) error {
	c := s.Client.(*kinds.Client)
	i, err := getInstance(ctx, c, m)
	if fault.Is(err, fault.Gone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("terminate the instance %s: %w", m.Name, err)
	}
	manager, members, err := i.findManager(ctx, c)
	if err != nil {
		return fmt.Errorf("terminate the instance %s: %w", m.Name, err)
	}
	if manager == "" {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Instances.Delete(c.Project, m.Zone, m.Name).Context(ctx).Do()))
	}
	if !i.hasReplacement() {
		if err := createSuccessor(ctx, c, m, manager, members); err != nil {
			return err
		}
	}
	if err := fault.IgnoreGone(c.Await(ctx)(c.Compute.InstanceGroupManagers.DeleteInstances(c.Project, m.Zone, manager,
		&compute.InstanceGroupManagersDeleteInstancesRequest{Instances: []string{"zones/" + m.Zone + "/instances/" + m.Name}, SkipInstancesOnValidationError: true}).Context(ctx).Do())); err != nil {
		return fmt.Errorf("delete the instance %s of the group %s: %w", m.Name, manager, err)
	}
	return nil
}

// findManager returns the group that maintains an instance, and the names of all its instances; "" if
// there is no such group.
func (i *instance) findManager(ctx context.Context, c *kinds.Client) (manager string, names []string, err error) {
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

// createSuccessor makes a group create the successor of an instance, unless the group already has it.
func createSuccessor(ctx context.Context, c *kinds.Client, m platform.Machine, manager string, members []string) error {
	name := successorName(m.Name)
	if slices.Contains(members, name) {
		return nil
	}
	if err := c.Await(ctx)(c.Compute.InstanceGroupManagers.CreateInstances(c.Project, m.Zone, manager,
		&compute.InstanceGroupManagersCreateInstancesRequest{Instances: []*compute.PerInstanceConfig{{Name: name}}}).Context(ctx).Do()); err != nil {
		return fmt.Errorf("create a successor of %s: %w", m.Name, err)
	}
	return nil
}

const (
	// suffix is the number of characters in the suffix of a successor's name.
	suffix = 6
	// nameMax is the maximum length of an instance's name (RFC 1035).
	nameMax = 63
)

// successorName returns the name of an instance's successor: it differs from the instance's name, and
// two instances of a group have different successors.
func successorName(of string) string {
	base := of[:min(max(strings.LastIndex(of, "-"), 0), nameMax-1-suffix)]
	sum := sha256.Sum256([]byte(of))
	end := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:suffix]
	return strings.TrimPrefix(base+"-"+end, "-")
}

// deregister takes an instance out of its group's target pools. An internal balancer has whole
// groups as backends: an API server that shuts down fails the balancer's health check, and keeps
// serving meanwhile. The only machine with an API server stays, because no other would answer.
func deregister(ctx context.Context, s *platform.Session, cluster *api.Cluster, m platform.Machine) error {
	c := s.Client.(*kinds.Client)
	now, err := loadView(ctx, c, cluster)
	if err != nil {
		return err
	}
	for _, i := range now.instances {
		if i.Name != m.Name || i.group == nil {
			continue
		}
		for _, pool := range i.group.TargetPools {
			if err := removeFromPool(ctx, c, path.Base(pool), i.Instance); err != nil {
				return fmt.Errorf("remove the instance %s from the target pool %s: %w", m.Name, path.Base(pool), err)
			}
		}
	}
	return nil
}

// removeFromPool takes an instance out of a target pool, unless it is the only one in it.
func removeFromPool(ctx context.Context, c *kinds.Client, pool string, i *compute.Instance) error {
	p, err := gceapi.Result(c.Compute.TargetPools.Get(c.Project, c.Region, pool).Context(ctx).Do())
	if err != nil {
		return fault.IgnoreGone(err)
	}
	if len(p.Instances) <= 1 || !slices.ContainsFunc(p.Instances, func(is string) bool { return link(is) == link(i.SelfLink) }) {
		return nil
	}
	return fault.IgnoreGone(c.Await(ctx)(c.Compute.TargetPools.RemoveInstance(c.Project, c.Region, pool,
		&compute.TargetPoolsRemoveInstanceRequest{Instances: []*compute.InstanceReference{{Instance: i.SelfLink}}}).Context(ctx).Do()))

}

func getInstance(ctx context.Context, c *kinds.Client, m platform.Machine) (*instance, error) {
	i, err := c.Compute.Instances.Get(c.Project, m.Zone, m.Name).Context(ctx).Do()
	return &instance{Instance: i}, gceapi.PlainError(err)
}
