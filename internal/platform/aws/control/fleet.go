package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/incluster/roster"
)

// maxScaled is the maximum number of instances in a request for their Auto Scaling groups (API
// reference, DescribeAutoScalingInstances).
const maxScaled = 50

// instanceFleet lists and replaces the cluster's instances in Auto Scaling groups.
type instanceFleet struct {
	instances
	ec2 interface {
		TerminateInstances(context.Context, *ec2.TerminateInstancesInput, ...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error)
	}
	scaling autoscaling.DescribeAutoScalingInstancesAPIClient
}

var _ controller.Fleet = instanceFleet{}

// List returns the pending and running instances, with the instance group in their tags.
func (f instanceFleet) List(ctx context.Context) ([]controller.FleetMachine, error) {
	found, err := f.list(ctx, []ec2types.Filter{
		{Name: aws.String("tag:" + awscloud.ClusterTag), Values: []string{f.cluster}},
		{Name: aws.String("instance-state-name"), Values: []string{string(ec2types.InstanceStateNamePending), string(ec2types.InstanceStateNameRunning)}}})
	if err != nil {
		return nil, fmt.Errorf("describe the instances of the cluster: %w", err)
	}
	var out []roster.Machine
	for _, m := range found {
		i, err := f.describe(ctx, m)
		if err != nil {
			return nil, err
		}
		out = append(out, roster.Machine{ID: aws.ToString(m.InstanceId), Node: i.NodeName, Group: i.Group, State: roster.Running, Created: aws.ToTime(m.LaunchTime)})
	}
	return roster.Fleet(out), nil
}

// Serving returns the instances that are in service in an Auto Scaling group: instances in a warm
// pool are not nodes, and detached instances do not remain nodes for long.
func (f instanceFleet) Serving(ctx context.Context, machines []controller.FleetMachine) ([]controller.FleetMachine, error) {
	var out []controller.FleetMachine
	for batch := range slices.Chunk(machines, maxScaled) {
		ids, serving := make([]string, len(batch)), map[string]bool{}
		for i, m := range batch {
			ids[i] = m.Name
		}
		answer, err := f.scaling.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: ids})
		if err != nil {
			return nil, fmt.Errorf("describe the Auto Scaling groups of %d instances: %w", len(ids), err)
		}
		for _, i := range answer.AutoScalingInstances {
			serving[aws.ToString(i.InstanceId)] = aws.ToString(i.LifecycleState) == string(astypes.LifecycleStateInService)
		}
		for _, m := range batch {
			if serving[m.Name] {
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// Replace terminates the instance; its Auto Scaling group starts another.
func (f instanceFleet) Replace(ctx context.Context, m controller.FleetMachine) error {
	_, err := f.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{m.Name}})
	if err != nil {
		return fault.New(fault.Of(err), "terminate the instance %s: %w", m.Name, err)
	}
	return nil
}
