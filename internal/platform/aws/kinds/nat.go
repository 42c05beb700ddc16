package kinds

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// ElasticIP is a public IPv4 address of the account.
type ElasticIP struct {
	Domain string `res:"replace" tf:"domain"` // "vpc"
	Tags   Tags   `tf:"tags"`

	ID       string `res:"out,id" out:"id"` // "eipalloc-…"
	PublicIP string `res:"out,id" out:"address" tf:"public_ip"`
}

// ElasticIPs is the kind of ElasticIP. A shared one is adopted by its
// id, "eipalloc-…", or by the address.
var ElasticIPs = resource.Kind[ElasticIP, *Client]{
	Name:  "aws_eip",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"ElasticIP"},
	Early: true,
	Key:   func(e *ElasticIP) string { return e.Tags[TagName] },
	List:  listElasticIPs,
	Create: func(ctx context.Context, c *Client, e *ElasticIP) error {
		o, err := c.EC2.AllocateAddress(ctx, &ec2.AllocateAddressInput{
			Domain: ec2types.DomainType(e.Domain), TagSpecifications: tagSpec(ec2types.ResourceTypeElasticIp, e.Tags)})
		if err == nil {
			e.ID, e.PublicIP = aws.ToString(o.AllocationId), aws.ToString(o.PublicIp)
		}
		return err
	},
	Update: []resource.Setter[ElasticIP, *Client]{
		tagSetter(func(e *ElasticIP) (string, map[string]string) { return e.ID, e.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, e *ElasticIP) error {
		_, err := c.EC2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: &e.ID})
		return fault.IgnoreGone(err)
	},
}

var addressDescriber = describer[ec2types.Address]{
	what: "addresses", id: "allocation-id",
	tags: func(a ec2types.Address) []ec2types.Tag { return a.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.Address, error) {
		o, err := c.EC2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: f})
		if err != nil {
			return nil, err
		}
		return o.Addresses, nil // the API does not paginate
	},
}

func listElasticIPs(ctx context.Context, c *Client, s resource.Scope) ([]*ElasticIP, error) {
	byAddress := resource.Scope{}
	for _, id := range s.Adopted {
		if !strings.HasPrefix(id, "eipalloc-") {
			byAddress.Adopted = append(byAddress.Adopted, id)
		}
	}
	s.Adopted = slices.DeleteFunc(slices.Clone(s.Adopted), func(id string) bool { return slices.Contains(byAddress.Adopted, id) })
	list, err := addressDescriber.listAll(ctx, c, s)
	if err == nil && len(byAddress.Adopted) > 0 {
		var shared []ec2types.Address
		shared, err = addressDescriber.describe(ctx, c, []ec2types.Filter{filter("public-ip", byAddress.Adopted...)})
		list = append(slices.Clip(list), shared...)
	}
	return convert(list, err, func(d ec2types.Address) *ElasticIP {
		return &ElasticIP{Domain: string(d.Domain), Tags: tagMap(d.Tags), ID: aws.ToString(d.AllocationId), PublicIP: aws.ToString(d.PublicIp)}
	})
}

// NATGateway lets machines in private subnets reach the internet.
type NATGateway struct {
	Allocation resource.Value `res:"replace" tf:"allocation_id"`
	Subnet     resource.Value `res:"replace" tf:"subnet_id"`
	Tags       Tags           `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// NATGateways is the kind of NATGateway.
var NATGateways = resource.Kind[NATGateway, *Client]{
	Name:  "aws_nat_gateway",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"NatGateway"},
	Early: true,
	// Routes remain, and lead to the new gateway before the old one is deleted; except for a
	// gateway that keeps its address, which createNATGateway frees first.
	CreateFirst: true,
	Key:         func(n *NATGateway) string { return n.Tags[TagName] },
	List:        listNATGateways,
	Create:      createNATGateway,
	Ready: func(ctx context.Context, c *Client, n *NATGateway) error {
		d, err := describeNAT(ctx, c, n.ID)
		if err != nil {
			return retryIfGone(err)
		}
		switch d.State {
		case ec2types.NatGatewayStateAvailable:
			return nil
		case ec2types.NatGatewayStatePending:
			return fault.New(fault.NotYet, "NAT gateway %s is pending", n.ID)
		}
		return fault.New(fault.Permanent, "NAT gateway %s is %s: %s", n.ID, d.State, aws.ToString(d.FailureMessage))
	},
	Update: []resource.Setter[NATGateway, *Client]{
		tagSetter(func(n *NATGateway) (string, map[string]string) { return n.ID, n.Tags }),
	},
	Delete: deleteNATGateway,
}

var natDescriber = describer[ec2types.NatGateway]{
	what: "NAT gateways", id: "nat-gateway-id",
	tags: func(n ec2types.NatGateway) []ec2types.Tag { return n.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.NatGateway, error) {
		return pages(ctx, ec2.NewDescribeNatGatewaysPaginator(c.EC2, &ec2.DescribeNatGatewaysInput{Filter: f}),
			func(o *ec2.DescribeNatGatewaysOutput) []ec2types.NatGateway { return o.NatGateways })
	},
}

// listNATGateways leaves out deleted gateways, which are listed for another hour. A gateway that is
// being deleted counts only for a deletion of everything.
func listNATGateways(ctx context.Context, c *Client, s resource.Scope) ([]*NATGateway, error) {
	list, err := natDescriber.listAll(ctx, c, s)
	list = slices.DeleteFunc(slices.Clone(list), func(d ec2types.NatGateway) bool {
		switch d.State {
		case ec2types.NatGatewayStateDeleted, ec2types.NatGatewayStateFailed:
			return true
		case ec2types.NatGatewayStateDeleting:
			return !s.All
		}
		return false
	})
	return convert(list, err, natGatewayOf)
}

func natGatewayOf(d ec2types.NatGateway) *NATGateway {
	n := &NATGateway{Subnet: text(d.SubnetId), Tags: tagMap(d.Tags), ID: aws.ToString(d.NatGatewayId)}
	for i, a := range d.NatGatewayAddresses {
		if i == 0 || aws.ToBool(a.IsPrimary) {
			n.Allocation = text(a.AllocationId)
		}
	}
	return n
}

// createNATGateway creates a gateway when its address is free: a gateway that is created earlier
// fails permanently. If the gateway that it replaces has the address, that one is deleted first,
// and the subnets have no internet access until the new one is available.
func createNATGateway(ctx context.Context, c *Client, n *NATGateway) error {
	if err := releaseAddress(ctx, c, n); err != nil {
		return err
	}
	o, err := c.EC2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{
		SubnetId: aws.String(n.Subnet.Text()), AllocationId: aws.String(n.Allocation.Text()),
		ConnectivityType:  ec2types.ConnectivityTypePublic,
		TagSpecifications: tagSpec(ec2types.ResourceTypeNatgateway, n.Tags)})
	if err == nil {
		n.ID = aws.ToString(o.NatGateway.NatGatewayId)
	}
	return err
}

// releaseAddress deletes the cluster's own gateway with n's name and address in another subnet, and
// returns an error while any gateway has the address.
func releaseAddress(ctx context.Context, c *Client, n *NATGateway) error {
	list, err := natDescriber.describe(ctx, c, []ec2types.Filter{filter("state", string(ec2types.NatGatewayStatePending),
		string(ec2types.NatGatewayStateAvailable), string(ec2types.NatGatewayStateDeleting))})
	if err != nil {
		return err
	}
	for _, d := range list {
		holder := natGatewayOf(d)
		if d.State == ec2types.NatGatewayStateDeleted || d.State == ec2types.NatGatewayStateFailed || holder.Allocation.Text() != n.Allocation.Text() {
			continue
		}
		ours := holder.Tags[TagName] == n.Tags[TagName] && isInScope(resource.Scope{Cluster: n.Tags[TagCluster]}, holder.Tags)
		if ours && holder.Subnet.Text() != n.Subnet.Text() {
			if err := deleteNATGateway(ctx, c, holder); err != nil {
				return err
			}
			continue
		}
		return fault.New(fault.NotYet, "the address %s is in use by NAT gateway %s", n.Allocation.Text(), holder.ID)
	}
	return nil
}

func describeNAT(ctx context.Context, c *Client, id string) (ec2types.NatGateway, error) {
	list, err := natDescriber.describe(ctx, c, []ec2types.Filter{filter("nat-gateway-id", id)})
	if err == nil && len(list) == 0 {
		err = fault.New(fault.Gone, "NAT gateway %s does not exist", id)
	}
	if err != nil {
		return ec2types.NatGateway{}, err
	}
	return list[0], nil
}

// deleteNATGateway returns only when the gateway is deleted: until then, its address and its subnet
// are in use. Each attempt checks the progress of the deletion.
func deleteNATGateway(ctx context.Context, c *Client, n *NATGateway) error {
	d, err := describeNAT(ctx, c, n.ID)
	if err != nil {
		return fault.IgnoreGone(err)
	}
	switch d.State {
	case ec2types.NatGatewayStateDeleted:
		return nil
	case ec2types.NatGatewayStateDeleting:
	default:
		if _, err := c.EC2.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: &n.ID}); err != nil {
			return fault.IgnoreGone(err)
		}
	}
	return fault.New(fault.NotYet, "NAT gateway %s is being deleted", n.ID)
}
