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

// SubnetTags are the tags that a cluster puts on a shared subnet: its owner tag
// with the value "shared", and those that tell controllers how to use the subnet.
type SubnetTags struct {
	Subnet resource.Value `res:"replace"`
	Tags   GuestTags
}

// GuestTags are tags on objects that are not the cluster's own, where other clusters may put
// similar ones: only the wanted tags count.
type GuestTags map[string]string

// Foreign reports that any tag that is not wanted is to stay.
func (GuestTags) Foreign(string) bool { return true }

// SubnetTagSets is the kind of SubnetTags, the tags of a shared subnet. They must include the
// owner tag of the cluster, by which they are found.
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

// addSubnetTags sets the tags that are wanted, and takes none away.
func addSubnetTags(ctx context.Context, c *Client, s *SubnetTags) error {
	return setEC2Tags(ctx, c, s.Subnet.Text(), nil, s.Tags)
}

// TagKarpenterGroup, followed by a group's name, marks the subnets of a group
// whose machines Karpenter makes.
const TagKarpenterGroup = "kops.k8s.io/instance-group/"

// subnetTag reports whether a cluster puts a tag with the key on a shared subnet.
func subnetTag(key, cluster string) bool {
	switch key {
	case TagOwnerPrefix + cluster, "SubnetType", "kubernetes.io/role/elb", "kubernetes.io/role/internal-elb":
		return true
	}
	return strings.HasPrefix(key, TagKarpenterGroup)
}

// deleteSubnetTags removes what names the cluster. The other tags say what the
// subnet is good for, and other clusters may have put them there as well.
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
