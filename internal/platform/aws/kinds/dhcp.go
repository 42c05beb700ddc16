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

// DHCPOptions are the DHCP options of machines in a VPC.
type DHCPOptions struct {
	DomainName string   `res:"replace" tf:"domain_name"`
	Servers    []string `res:"replace,ordered" tf:"domain_name_servers"`
	Tags       Tags     `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// DHCPOptionSets is the kind of DHCPOptions.
var DHCPOptionSets = resource.Kind[DHCPOptions, *Client]{
	Name:        "aws_vpc_dhcp_options",
	API:         apiEC2,
	Phase:       resource.Network,
	Tasks:       []string{"DHCPOptions"},
	CreateFirst: true,
	Key:         func(d *DHCPOptions) string { return d.Tags[TagName] },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*DHCPOptions, error) {
		list, err := dhcpDescriber.listAll(ctx, c, s)
		return convert(list, err, dhcpOf)
	},
	Create: createDHCPOptions,
	Update: []resource.Setter[DHCPOptions, *Client]{
		tagSetter(func(d *DHCPOptions) (string, map[string]string) { return d.ID, d.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, d *DHCPOptions) error {
		_, err := c.EC2.DeleteDhcpOptions(ctx, &ec2.DeleteDhcpOptionsInput{DhcpOptionsId: &d.ID})
		return fault.IgnoreGone(err)
	},
}

var dhcpDescriber = describer[ec2types.DhcpOptions]{
	what: "dhcp options", id: "dhcp-options-id",
	tags: func(d ec2types.DhcpOptions) []ec2types.Tag { return d.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.DhcpOptions, error) {
		return pages(ctx, ec2.NewDescribeDhcpOptionsPaginator(c.EC2, &ec2.DescribeDhcpOptionsInput{Filters: f}),
			func(o *ec2.DescribeDhcpOptionsOutput) []ec2types.DhcpOptions { return o.DhcpOptions })
	},
}

// The names of the options, from RFC 2132 as used in the EC2 API.
const (
	dhcpDomainName = "domain-name"
	dhcpServers    = "domain-name-servers"
)

func dhcpOf(d ec2types.DhcpOptions) *DHCPOptions {
	out := &DHCPOptions{Tags: tagMap(d.Tags), ID: aws.ToString(d.DhcpOptionsId)}
	for _, o := range d.DhcpConfigurations {
		for _, v := range o.Values {
			switch aws.ToString(o.Key) {
			case dhcpDomainName:
				out.DomainName = aws.ToString(v.Value)
			case dhcpServers:
				out.Servers = append(out.Servers, aws.ToString(v.Value))
			}
		}
	}
	return out
}

func createDHCPOptions(ctx context.Context, c *Client, d *DHCPOptions) error {
	o, err := c.EC2.CreateDhcpOptions(ctx, &ec2.CreateDhcpOptionsInput{
		DhcpConfigurations: []ec2types.NewDhcpConfiguration{
			{Key: aws.String(dhcpDomainName), Values: []string{d.DomainName}},
			{Key: aws.String(dhcpServers), Values: d.Servers},
		},
		TagSpecifications: tagSpec(ec2types.ResourceTypeDhcpOptions, d.Tags)})
	if err != nil {
		return err
	}
	d.ID = aws.ToString(o.DhcpOptions.DhcpOptionsId)
	if len(o.DhcpOptions.Tags) == 0 { // an emulator ignored them; AWS returns the tags
		return setEC2Tags(ctx, c, d.ID, nil, d.Tags)
	}
	return nil
}

// DHCPAssociation makes a VPC use a set of DHCP options.
type DHCPAssociation struct {
	VPC     resource.Value `res:"replace" tf:"vpc_id"`
	Options resource.Value `tf:"dhcp_options_id"`
}

// DHCPAssociations is the kind of DHCPAssociation.
var DHCPAssociations = resource.Kind[DHCPAssociation, *Client]{
	Name:  "aws_vpc_dhcp_options_association",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"VPCDHCPOptionsAssociation"},
	Key:   func(d *DHCPAssociation) string { return d.VPC.String() },
	List:  listDHCPAssociations,
	Create: func(ctx context.Context, c *Client, d *DHCPAssociation) error {
		return associateDHCP(ctx, c, d, d.Options.Text())
	},
	Update: []resource.Setter[DHCPAssociation, *Client]{{
		Fields: []string{"Options"},
		Set: func(ctx context.Context, c *Client, have, want *DHCPAssociation) error {
			return associateDHCP(ctx, c, have, want.Options.Text())
		},
	}},
	Delete: func(ctx context.Context, c *Client, d *DHCPAssociation) error {
		return fault.IgnoreGone(associateDHCP(ctx, c, d, "default")) // a VPC's initial options
	},
}

// listDHCPAssociations lists the cluster's VPCs that use the cluster's options.
func listDHCPAssociations(ctx context.Context, c *Client, s resource.Scope) ([]*DHCPAssociation, error) {
	networks, err := vpcDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	options, err := dhcpDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	var out []*DHCPAssociation
	for _, v := range networks {
		if slices.ContainsFunc(options, func(d ec2types.DhcpOptions) bool {
			return aws.ToString(d.DhcpOptionsId) == aws.ToString(v.DhcpOptionsId)
		}) {
			out = append(out, &DHCPAssociation{VPC: text(v.VpcId), Options: text(v.DhcpOptionsId)})
		}
	}
	return out, nil
}

func associateDHCP(ctx context.Context, c *Client, d *DHCPAssociation, options string) error {
	_, err := c.EC2.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{
		VpcId: aws.String(d.VPC.Text()), DhcpOptionsId: &options})
	return err
}
