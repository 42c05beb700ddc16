package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/kinds"
)

// detachedTag marks a machine that a rolling update detached from its group.
const detachedTag = "kops.k8s.io/detached-from-asg"

// pageSize is the maximum number of scaling groups in one response (API reference, DescribeAutoScalingGroups).
const pageSize int32 = 100

// listMachines lists all scaling groups and all instances of the cluster: two requests, regardless of
// the number of machines, one more for each warm pool, whose instances the group does not list, and
// one for each group that is missing instances.
func listMachines(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	client := s.Client.(*kinds.Client)
	var groups []astypes.AutoScalingGroup
	var members map[string]member
	var why map[string]string
	var found []ec2types.Instance
	both, part := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		if groups, err = scalingGroups(part, client, c.Name); err != nil {
			return err
		}
		why = troubles(part, client, groups)
		members, err = membersOf(part, client, c.Name, groups)
		return err
	})
	both.Go(func() (err error) {
		found, err = instances(part, client, c.Name)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	var out platform.Grouping
	for _, g := range groups {
		of := out.Group(instanceGroupOf(g.Tags))
		of.Target += int(sdk.ToInt32(g.DesiredCapacity))
		of.Trouble = cmp.Or(of.Trouble, why[sdk.ToString(g.AutoScalingGroupName)])
	}
	for _, i := range found {
		m := newMachine(i)
		in, counted := members[m.Name]
		state := string(in.life)
		switch {
		case in.spare:
			m.Spare, m.State = true, state
		case strings.HasPrefix(state, "Terminat"): // it is terminating, and may still be a node
			m.Detached, m.State = true, state
		}
		leaves := strings.Contains(state, "Terminat") || i.State != nil && i.State.Name == ec2types.InstanceStateNameShuttingDown
		m.Outdated = !leaves && (counted && in.created != in.wanted || m.Detached)
		mine := out.Group(m.Group)
		mine.Machines = append(mine.Machines, m)
	}
	return out.Groups(), nil
}

func scalingGroups(ctx context.Context, c *kinds.Client, cluster string) ([]astypes.AutoScalingGroup, error) {
	var out []astypes.AutoScalingGroup
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(c.AutoScaling, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters:    []astypes.Filter{{Name: sdk.String("tag:" + kinds.TagOwnerPrefix + cluster), Values: []string{kinds.Owned}}},
		MaxRecords: sdk.Int32(pageSize)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the auto-scaling groups of %s: %w", cluster, err)
		}
		for _, g := range page.AutoScalingGroups {
			if g.Status == nil { // groups have a status only while they are being deleted
				out = append(out, g)
			}
		}
	}
	return out, nil
}

// warmPool lists the instances in a scaling group's warm pool.
func warmPool(ctx context.Context, c *kinds.Client, group string) ([]astypes.Instance, error) {
	var out []astypes.Instance
	pages := autoscaling.NewDescribeWarmPoolPaginator(c.AutoScaling, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: &group})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the warm pool of %s: %w", group, err)
		}
		out = append(out, page.Instances...)
	}
	return out, nil
}

// instances lists the cluster's instances that are not terminated, whether or not they are in a
// scaling group.
func instances(ctx context.Context, c *kinds.Client, cluster string) ([]ec2types.Instance, error) {
	var out []ec2types.Instance
	pages := ec2.NewDescribeInstancesPaginator(c.EC2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: sdk.String("tag:" + kinds.TagOwnerPrefix + cluster), Values: []string{kinds.Owned}},
		{Name: sdk.String("instance-state-name"), Values: []string{"pending", "running", "shutting-down", "stopping", "stopped"}}}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the instances of %s: %w", cluster, err)
		}
		for _, r := range page.Reservations {
			out = append(out, r.Instances...)
		}
	}
	return out, nil
}

// newMachine converts an instance; its node has the instance's ID.
func newMachine(i ec2types.Instance) platform.Machine {
	m := platform.Machine{Name: sdk.ToString(i.InstanceId), Node: sdk.ToString(i.InstanceId), Type: string(i.InstanceType), Created: sdk.ToTime(i.LaunchTime)}
	for _, t := range i.Tags {
		switch sdk.ToString(t.Key) {
		case api.LabelInstanceGroup:
			m.Group = sdk.ToString(t.Value)
		case detachedTag:
			m.Detached = true
		}
	}
	if i.State != nil {
		m.State, m.Running = string(i.State.Name), i.State.Name == ec2types.InstanceStateNameRunning
		m.Detached = m.Detached || i.State.Name == ec2types.InstanceStateNameShuttingDown
	}
	if i.Placement != nil {
		m.Zone = sdk.ToString(i.Placement.AvailabilityZone)
	}
	addresses := map[string]bool{}
	for _, a := range []*string{i.PrivateIpAddress, i.PublicIpAddress, i.Ipv6Address} {
		if sdk.ToString(a) != "" {
			addresses[*a] = true
		}
	}
	m.Addresses = slices.Sorted(maps.Keys(addresses))
	return m
}

// instanceGroupOf returns the name of a scaling group's instance group.
func instanceGroupOf(tags []astypes.TagDescription) string {
	for _, t := range tags {
		if sdk.ToString(t.Key) == api.LabelInstanceGroup {
			return sdk.ToString(t.Value)
		}
	}
	return ""
}

// bootRecord reads an instance's serial console, which also contains its
// report; AWS keeps the last 64 KiB.
func bootRecord(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) (platform.BootRecord, error) {
	client := s.Client.(*kinds.Client)
	text, err := console(ctx, client, m.Name, true)
	if awsapi.Code(err) == "UnsupportedOperation" || err == nil && text == "" {
		text, err = console(ctx, client, m.Name, false)
	}
	if err != nil {
		return platform.BootRecord{}, fmt.Errorf("read the console of %s: %w", m.Name, err)
	}
	return platform.BootRecord{Console: []byte(strings.ReplaceAll(text, "\r", ""))}, nil
}

// console returns the text of an instance's console: the latest text, which only instances on the
// Nitro system provide, or the text from soon after the instance started or stopped (API reference,
// GetConsoleOutput).
func console(ctx context.Context, c *kinds.Client, id string, now bool) (string, error) {
	out, err := c.EC2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id, Latest: &now})
	if err != nil {
		return "", err
	}
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(out.Output))
	return string(text), err
}
