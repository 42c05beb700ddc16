package kinds

import (
	"context"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// SubnetTags are the tags that a cluster sets on a shared subnet: its owner tag with the value
// "shared", and those that tell controllers how to use the subnet.
type SubnetTags struct {
	Subnet resource.Value `res:"replace"`
	Tags   GuestTags
}

// GuestTags are tags on objects that the cluster does not own, where other clusters may set similar
// ones: only the wanted tags count.
type GuestTags map[string]string

// Foreign returns true: tags that are not wanted are always kept.
func (GuestTags) Foreign(string) bool { return true }

// SubnetTagSets is the kind of SubnetTags, the tags of a shared subnet. They must include the
// cluster's owner tag, which is used to find them.
var SubnetTagSets = resource.Kind[SubnetTags, *Client]{
	Name:   "aws_subnet_tags",
	Direct: true,
	API:    apiEC2,
	Phase:  resource.Network,
	Key:    func(s *SubnetTags) string { return s.Subnet.String() },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*SubnetTags, error) {
		if !s.All && len(s.Names) == 0 {
			return nil, nil // the cluster shares no subnet
		}
		list, err := subnetDescriber.describe(ctx, c, []ec2types.Filter{filter("tag:"+TagOwnerPrefix+s.Cluster, Shared)})
		return convert(list, err, func(d ec2types.Subnet) *SubnetTags {
			tags := tagMap(d.Tags)
			maps.DeleteFunc(tags, func(k, _ string) bool { return !subnetTag(k, s.Cluster) })
			return &SubnetTags{Subnet: text(d.SubnetId), Tags: tags}
		})
	},
	Create: addSubnetTags,
	Update: []resource.Setter[SubnetTags, *Client]{
		{Fields: []string{"Tags"}, Set: func(ctx context.Context, c *Client, _, want *SubnetTags) error { return addSubnetTags(ctx, c, want) }},
	},
	Delete: deleteSubnetTags,
}

// addSubnetTags sets the wanted tags, and removes none.
func addSubnetTags(ctx context.Context, c *Client, s *SubnetTags) error {
	return setEC2Tags(ctx, c, s.Subnet.Text(), nil, s.Tags)
}

// TagKarpenterGroup, followed by a group's name, marks the subnets of a group whose machines
// Karpenter creates.
const TagKarpenterGroup = "kops.k8s.io/instance-group/"

// subnetTag reports whether a cluster sets a tag with the key on a shared subnet.
func subnetTag(key, cluster string) bool {
	switch key {
	case TagOwnerPrefix + cluster, "SubnetType", "kubernetes.io/role/elb", "kubernetes.io/role/internal-elb":
		return true
	}
	return strings.HasPrefix(key, TagKarpenterGroup)
}

// deleteSubnetTags removes the tags that name the cluster. The other tags describe the use of the
// subnet, and other clusters may have set them, too.
func deleteSubnetTags(ctx context.Context, c *Client, s *SubnetTags) error {
	in := &ec2.DeleteTagsInput{Resources: []string{s.Subnet.Text()}}
	for k := range s.Tags {
		if strings.HasPrefix(k, TagOwnerPrefix) {
			in.Tags = append(in.Tags, ec2types.Tag{Key: aws.String(k)})
		}
	}
	_, err := c.EC2.DeleteTags(ctx, in)
	return fault.IgnoreGone(err)
}
