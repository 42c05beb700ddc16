package kinds

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// NetworkInterfaceLeft is a network interface that a pod network made for the
// cluster and that outlived its machine. It is only ever deleted, with its cluster.
type NetworkInterfaceLeft struct {
	VPC    resource.Value `res:"replace"`
	Subnet resource.Value `res:"replace"`
	Groups []resource.Value
	Tags   map[string]string

	ID string `res:"out,id" out:"id"`
}

// NetworkInterfaces is the kind of NetworkInterfaceLeft.
var NetworkInterfaces = resource.Kind[NetworkInterfaceLeft, *Client]{
	Name:   "aws_network_interface",
	Direct: true,
	API:    apiEC2,
	Key:    func(n *NetworkInterfaceLeft) string { return n.ID },
	List:   listNetworkInterfaces,
	Create: func(context.Context, *Client, *NetworkInterfaceLeft) error { return errDeletedOnly },
	Update: []resource.Setter[NetworkInterfaceLeft, *Client]{{Fields: []string{"Groups", "Tags"},
		Set: func(context.Context, *Client, *NetworkInterfaceLeft, *NetworkInterfaceLeft) error {
			return errDeletedOnly
		}}},
	Delete: func(ctx context.Context, c *Client, n *NetworkInterfaceLeft) error {
		_, err := c.EC2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &n.ID})
		return fault.IgnoreGone(err)
	},
}

var networkInterfaceDescriber = describer[ec2types.NetworkInterface]{
	what: "network interfaces", id: "network-interface-id",
	tags: func(n ec2types.NetworkInterface) []ec2types.Tag { return n.TagSet },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.NetworkInterface, error) {
		return pages(ctx, ec2.NewDescribeNetworkInterfacesPaginator(c.EC2, &ec2.DescribeNetworkInterfacesInput{Filters: f}),
			func(o *ec2.DescribeNetworkInterfacesOutput) []ec2types.NetworkInterface { return o.NetworkInterfaces })
	},
}

// listNetworkInterfaces leaves out the interfaces of AWS's own services and
// those that go with their machine.
func listNetworkInterfaces(ctx context.Context, c *Client, s resource.Scope) ([]*NetworkInterfaceLeft, error) {
	if !s.All {
		return nil, nil
	}
	list, err := networkInterfaceDescriber.owned(ctx, c, s)
	list = slices.DeleteFunc(slices.Clone(list), func(d ec2types.NetworkInterface) bool {
		return aws.ToBool(d.RequesterManaged) || d.Attachment != nil && aws.ToBool(d.Attachment.DeleteOnTermination)
	})
	return convert(list, err, func(d ec2types.NetworkInterface) *NetworkInterfaceLeft {
		n := &NetworkInterfaceLeft{VPC: text(d.VpcId), Subnet: text(d.SubnetId), Tags: tagMap(d.TagSet), ID: aws.ToString(d.NetworkInterfaceId)}
		for _, g := range d.Groups {
			n.Groups = append(n.Groups, text(g.GroupId))
		}
		return n
	})
}
