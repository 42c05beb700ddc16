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

// LeftoverNetworkInterface is a network interface that a pod network created for the cluster and that
// outlived its machine. It is only deleted, with its cluster.
type LeftoverNetworkInterface struct {
	VPC    resource.Value `res:"replace"`
	Subnet resource.Value `res:"replace"`
	Groups []resource.Value
	Tags   map[string]string

	ID string `res:"out,id" out:"id"`
}

// NetworkInterfaces is the kind of LeftoverNetworkInterface.
var NetworkInterfaces = resource.Kind[LeftoverNetworkInterface, *Client]{
	Name:   "aws_network_interface",
	Direct: true,
	API:    apiEC2,
	Key:    func(n *LeftoverNetworkInterface) string { return n.ID },
	List:   listNetworkInterfaces,
	Create: func(context.Context, *Client, *LeftoverNetworkInterface) error { return errDeletedOnly },
	Update: []resource.Setter[LeftoverNetworkInterface, *Client]{{Fields: []string{"Groups", "Tags"},
		Set: func(context.Context, *Client, *LeftoverNetworkInterface, *LeftoverNetworkInterface) error {
			return errDeletedOnly
		}}},
	Delete: func(ctx context.Context, c *Client, n *LeftoverNetworkInterface) error {
		_, err := c.EC2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &n.ID})
		return fault.IgnoreGone(err)
	},
}

// listNetworkInterfaces leaves out the interfaces of AWS' own services, those that are deleted with
// their machine, and those that something outside of the cluster uses. One request finds the interfaces
// with either of the cluster's tags, because some pod networks, such as Cilium, set only TagCluster. The
// response also lists interfaces of other clusters.
func listNetworkInterfaces(ctx context.Context, c *Client, s resource.Scope) ([]*LeftoverNetworkInterface, error) {
	if !s.All {
		return nil, nil
	}
	in := &ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{filter("tag-key", TagCluster, TagOwnerPrefix+s.Cluster)}}
	list, err := pages(ctx, ec2.NewDescribeNetworkInterfacesPaginator(c.EC2, in),
		func(o *ec2.DescribeNetworkInterfacesOutput) []ec2types.NetworkInterface { return o.NetworkInterfaces })
	list = slices.DeleteFunc(list, func(d ec2types.NetworkInterface) bool {
		return !isInterfaceOf(s.Cluster, tagMap(d.TagSet)) || aws.ToBool(d.RequesterManaged) || d.Attachment != nil && aws.ToBool(d.Attachment.DeleteOnTermination)
	})
	if err == nil && slices.ContainsFunc(list, isInUse) {
		var machines []ec2types.Instance
		machines, err = instanceDescriber.listOwned(ctx, c, s) // listInstances shares the request
		list = slices.DeleteFunc(list, func(d ec2types.NetworkInterface) bool { return isInUse(d) && !isAttachedToAny(d, machines) })
	}
	return convert(list, err, func(d ec2types.NetworkInterface) *LeftoverNetworkInterface {
		n := &LeftoverNetworkInterface{VPC: text(d.VpcId), Subnet: text(d.SubnetId), Tags: tagMap(d.TagSet), ID: aws.ToString(d.NetworkInterfaceId)}
		for _, g := range d.Groups {
			n.Groups = append(n.Groups, text(g.GroupId))
		}
		return n
	})
}

// isInUse reports whether AWS would refuse to delete the interface, and nobody is detaching it.
func isInUse(d ec2types.NetworkInterface) bool {
	return d.Status != ec2types.NetworkInterfaceStatusAvailable && d.Status != ec2types.NetworkInterfaceStatusDetaching
}

// isAttachedToAny reports whether the interface is attached to one of the machines.
func isAttachedToAny(d ec2types.NetworkInterface, machines []ec2types.Instance) bool {
	return d.Attachment != nil && slices.ContainsFunc(machines, func(m ec2types.Instance) bool {
		return aws.ToString(m.InstanceId) == aws.ToString(d.Attachment.InstanceId)
	})
}

// isInterfaceOf reports whether the tags belong to an interface that was created for the cluster. A
// shared interface does not belong to the cluster, whatever its other tags are.
func isInterfaceOf(cluster string, tags map[string]string) bool {
	owner, tagged := tags[TagOwnerPrefix+cluster]
	return owner == Owned || !tagged && tags[TagCluster] == cluster
}
