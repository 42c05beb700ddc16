package control

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/incluster/roster"
)

// machines contains the calls of EC2 that are used.
type machines interface {
	ec2.DescribeInstancesAPIClient
	AssignIpv6Addresses(context.Context, *ec2.AssignIpv6AddressesInput, ...func(*ec2.Options)) (*ec2.AssignIpv6AddressesOutput, error)
}

// instances are the machines of a cluster.
type instances struct {
	api     machines
	cluster string
	// byAddress reports whether the nodes of a group are named by their addresses.
	byAddress func(ctx context.Context, group string) (bool, error)
}

// Instance looks up a running machine with the cluster's tag.
func (i instances) Instance(ctx context.Context, id string) (awssts.Instance, error) {
	m, err := i.find(ctx, id)
	if err != nil {
		return awssts.Instance{}, err
	}
	return i.describe(ctx, m)
}

// find is like Instance, but returns EC2's description.
func (i instances) find(ctx context.Context, id string) (ec2types.Instance, error) {
	out, err := i.api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	var coded smithy.APIError
	if errors.As(err, &coded) && strings.HasPrefix(coded.ErrorCode(), "InvalidInstanceID") {
		return ec2types.Instance{}, fault.Wrap(fault.Gone, err, "")
	}
	if err != nil {
		return ec2types.Instance{}, fmt.Errorf("describe the instance %s: %w", id, err)
	}
	for _, r := range out.Reservations {
		for _, m := range r.Instances {
			if aws.ToString(m.InstanceId) == id && tag(m, awscloud.ClusterTag) == i.cluster && isRunning(m) {
				return m, nil
			}
		}
	}
	return ec2types.Instance{}, fault.New(fault.Gone, "%s is not a running machine of the cluster", id)
}

// list returns the instances that match filters.
func (i instances) list(ctx context.Context, filters []ec2types.Filter) ([]ec2types.Instance, error) {
	var out []ec2types.Instance
	pages := ec2.NewDescribeInstancesPaginator(i.api, &ec2.DescribeInstancesInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			out = append(out, r.Instances...)
		}
	}
	return out, nil
}

func isRunning(m ec2types.Instance) bool {
	return m.State != nil && (m.State.Name == ec2types.InstanceStateNamePending || m.State.Name == ec2types.InstanceStateNameRunning)
}

func tag(m ec2types.Instance, key string) string {
	for _, t := range m.Tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// describe converts EC2's description of a machine. The node's name is the one that the machine
// itself derives from its group's configuration, regardless of its subnet's host names.
func (i instances) describe(ctx context.Context, m ec2types.Instance) (awssts.Instance, error) {
	out := awssts.Instance{NodeName: aws.ToString(m.InstanceId), Group: tag(m, api.LabelInstanceGroup), Names: nodeNames(m)}
	if p := m.IamInstanceProfile; p != nil {
		out.Profile = path.Base(aws.ToString(p.Arn)) // arn:PARTITION:iam::ACCOUNT:instance-profile/PATH/NAME
	}
	if out.Group == "" {
		return out, nil
	}
	byAddress, err := i.byAddress(ctx, out.Group)
	if err != nil { // NotYet for any class: the machine itself exists
		return awssts.Instance{}, fault.New(fault.NotYet, "find out how nodes of the group %s are named: %w", out.Group, err)
	}
	if name := aws.ToString(m.PrivateDnsName); byAddress && name != "" {
		out.NodeName = name
	}
	return out, nil
}

// nodeNames returns the names that the kubelet's certificate may contain: the identifier, the private
// DNS name, and the addresses of the first interface.
func nodeNames(m ec2types.Instance) []string {
	out := []string{aws.ToString(m.InstanceId), aws.ToString(m.PrivateDnsName)}
	n, found := primaryInterface(m)
	if !found {
		return out
	}
	out = append(out, aws.ToString(n.PrivateIpAddress))
	if n.Association != nil {
		out = append(out, aws.ToString(n.Association.PublicIp))
	}
	for _, a := range n.Ipv6Addresses {
		out = append(out, aws.ToString(a.Ipv6Address))
	}
	return out
}

// primaryInterface returns the machine's primary interface; others may belong to pods.
func primaryInterface(m ec2types.Instance) (ec2types.InstanceNetworkInterface, bool) {
	for _, n := range m.NetworkInterfaces {
		if n.Attachment != nil && aws.ToInt32(n.Attachment.DeviceIndex) == 0 {
			return n, true
		}
	}
	return ec2types.InstanceNetworkInterface{}, false
}

// groupFinder finds a node's group by the tags of its machine.
type groupFinder struct {
	controller.Stored
	instances instances

	known roster.Known
}

// idOf returns the instance in the node's provider ID, which the cloud controller sets:
// aws:///ZONE/INSTANCE.
func idOf(n *corev1.Node) (string, error) {
	id := n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]
	if id == "" {
		return "", fault.New(fault.NotYet, "the node %s has no provider id yet", n.Name)
	}
	return id, nil
}

// machine looks up the machine of a node.
func (o *groupFinder) machine(ctx context.Context, n *corev1.Node, id string) (ec2types.Instance, awssts.Instance, error) {
	m, err := o.instances.find(ctx, id)
	if err != nil {
		return m, awssts.Instance{}, err
	}
	i, err := o.instances.describe(ctx, m)
	if err == nil && i.NodeName != n.Name { // the kubelet reported the provider ID, which is not trustworthy
		err = fault.New(fault.Gone, "the instance %s is not the machine of the node %s", id, n.Name)
	}
	return m, i, err
}

// GroupOf returns the group in the tag of the node's instance.
func (o *groupFinder) GroupOf(ctx context.Context, n *corev1.Node) (string, error) {
	id, err := idOf(n)
	if err != nil {
		return "", err
	}
	return o.known.GroupOf(n, id, func() (string, error) {
		_, i, err := o.machine(ctx, n, id)
		return i.Group, err
	})
}

// Prefix returns the IPv6 range of the instance's first interface. AWS assigns ranges with an
// 80-bit prefix to interfaces (EC2 User Guide, "Prefix delegation").
func (o *groupFinder) Prefix(ctx context.Context, n *corev1.Node) (string, error) {
	id, err := idOf(n)
	if err != nil {
		return "", err
	}
	m, _, err := o.machine(ctx, n, id)
	if err != nil {
		return "", err
	}
	card, found := primaryInterface(m)
	if !found {
		return "", fault.New(fault.NotYet, "the instance %s has no network interface", id)
	}
	var all []string
	for _, p := range card.Ipv6Prefixes {
		all = append(all, aws.ToString(p.Ipv6Prefix))
	}
	if len(all) == 0 {
		out, err := o.instances.api.AssignIpv6Addresses(ctx, &ec2.AssignIpv6AddressesInput{NetworkInterfaceId: card.NetworkInterfaceId, Ipv6PrefixCount: aws.Int32(1)})
		if err != nil {
			return "", fmt.Errorf("assign a range of addresses to the instance %s: %w", id, err)
		}
		all = out.AssignedIpv6Prefixes
	}
	if len(all) == 0 {
		return "", fault.New(fault.NotYet, "AWS assigned no range of addresses to the instance %s", id)
	}
	return slices.Min(all), nil
}
