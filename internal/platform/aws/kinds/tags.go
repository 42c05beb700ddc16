package kinds

import (
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/platform/aws/awscloud"
)

// Tag keys that specify who owns an object.
const (
	TagName    = "Name"
	TagCluster = awscloud.ClusterTag
	// TagOwnerPrefix, followed by the cluster's name, has the value "owned" or "shared".
	TagOwnerPrefix = "kubernetes.io/cluster/"
)

// Values of the owner tag.
const (
	Owned  = "owned"
	Shared = "shared"
)

// Tags are the tags of an object that kops created. Others add their own tags, for backups, costs,
// controllers, or because another cluster shares the object: kops ignores these.
type Tags map[string]string

// Foreign reports whether to keep a tag that is not wanted. Only its key determines this, so a tag
// that a user once specified is also kept.
func (Tags) Foreign(key string) bool { return !strings.HasPrefix(key, ownPrefix) }

// ownPrefix is the prefix of tag keys that only kops uses.
const ownPrefix = "kops.k8s.io/"

// OwnedTags returns the tags of an object that kops creates for the cluster; name may be empty. The
// caller may add to the map.
func OwnedTags(cluster, name string) map[string]string {
	t := map[string]string{TagCluster: cluster, TagOwnerPrefix + cluster: Owned}
	if name != "" {
		t[TagName] = name
	}
	return t
}

// isOwned reports whether the tags belong to an object of the cluster,
// regardless of who created it.
func isOwned(tags map[string]string, cluster string) bool {
	return tags[TagOwnerPrefix+cluster] == Owned
}

// isReserved reports whether a tag is one of AWS' own, which users cannot change.
func isReserved(key string) bool { return strings.HasPrefix(key, "aws:") }

func ec2Tags(tags map[string]string) []ec2types.Tag {
	return pairs(tags, func(k, v *string) ec2types.Tag { return ec2types.Tag{Key: k, Value: v} })
}

func tagMap(tags []ec2types.Tag) map[string]string {
	return tagsOf(tags, func(t ec2types.Tag) (key, value *string) { return t.Key, t.Value })
}

// tagSpec returns the tags for the call that creates an object.
func tagSpec(t ec2types.ResourceType, tags map[string]string) []ec2types.TagSpecification {
	if len(tags) == 0 {
		return nil
	}
	return []ec2types.TagSpecification{{ResourceType: t, Tags: ec2Tags(tags)}}
}
