package kinds

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// errDeletedOnly is the error for creating or updating objects that can only be deleted.
var errDeletedOnly = errors.New("objects of this kind are found and deleted, never declared")

// Instance is a machine that belongs to a cluster but not to an Auto Scaling group, as created by
// Karpenter. It is only deleted, with its cluster.
type Instance struct {
	VPC    resource.Value `res:"replace"`
	Subnet resource.Value `res:"replace"`
	Groups []resource.Value
	// Holds are the attached volumes and interfaces, which are in use until the machine is
	// terminated.
	Holds []resource.Value
	Tags  map[string]string

	ID string `res:"out,id" out:"id"`
}

// Instances is the kind of Instance.
var Instances = resource.Kind[Instance, *Client]{
	Name:   "aws_instance",
	Direct: true,
	API:    apiEC2,
	Key:    func(i *Instance) string { return i.ID },
	List:   listInstances,
	Create: func(context.Context, *Client, *Instance) error { return errDeletedOnly },
	Update: []resource.Setter[Instance, *Client]{{Fields: []string{"Groups", "Holds", "Tags"},
		Set: func(context.Context, *Client, *Instance, *Instance) error { return errDeletedOnly }}},
	Delete: deleteInstance,
}

var instanceDescriber = describer[ec2types.Instance]{
	what: "instances", id: "instance-id",
	tags: func(i ec2types.Instance) []ec2types.Tag { return i.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.Instance, error) {
		return pages(ctx, ec2.NewDescribeInstancesPaginator(c.EC2, &ec2.DescribeInstancesInput{Filters: f}),
			func(o *ec2.DescribeInstancesOutput) (out []ec2types.Instance) {
				for _, r := range o.Reservations {
					out = append(out, r.Instances...)
				}
				return out
			})
	},
}

// groupTag is the tag that AWS sets on the machines of an Auto Scaling group.
const groupTag = "aws:autoscaling:groupName"

func listInstances(ctx context.Context, c *Client, s resource.Scope) ([]*Instance, error) {
	if !s.All {
		return nil, nil
	}
	list, err := instanceDescriber.listOwned(ctx, c, s)
	list = slices.DeleteFunc(slices.Clone(list), func(d ec2types.Instance) bool {
		return isTerminated(d) || slices.ContainsFunc(d.Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == groupTag })
	})
	return convert(list, err, func(d ec2types.Instance) *Instance {
		i := &Instance{VPC: text(d.VpcId), Subnet: text(d.SubnetId), Tags: tagMap(d.Tags), ID: aws.ToString(d.InstanceId)}
		for _, g := range d.SecurityGroups {
			i.Groups = append(i.Groups, text(g.GroupId))
		}
		for _, b := range d.BlockDeviceMappings {
			if b.Ebs != nil {
				i.Holds = append(i.Holds, text(b.Ebs.VolumeId))
			}
		}
		for _, n := range d.NetworkInterfaces {
			i.Holds = append(i.Holds, text(n.NetworkInterfaceId))
		}
		return i
	})
}

func isTerminated(d ec2types.Instance) bool {
	return d.State != nil && d.State.Name == ec2types.InstanceStateNameTerminated
}

// deleteInstance returns only when the machine is terminated: until then, its volumes, interfaces
// and security groups are in use.
func deleteInstance(ctx context.Context, c *Client, i *Instance) error {
	list, err := instanceDescriber.describe(ctx, c, []ec2types.Filter{filter("instance-id", i.ID)})
	if err != nil || len(list) == 0 || isTerminated(list[0]) {
		return fault.IgnoreGone(err)
	}
	if s := list[0].State; s == nil || s.Name != ec2types.InstanceStateNameShuttingDown {
		if _, err := c.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{i.ID}}); err != nil {
			return fault.IgnoreGone(err)
		}
	}
	return fault.New(fault.NotYet, "machine %s is shutting down", i.ID)
}
