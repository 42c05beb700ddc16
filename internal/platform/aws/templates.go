package aws

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/platform/aws/kinds"
)

// member is an instance of a scaling group, or of its warm pool.
type member struct {
	life  astypes.LifecycleState
	spare bool
	kind  string // of instance
	// made is the version of a launch template that the instance was made of, and wanted the
	// version of which its group makes instances now.
	made, wanted kinds.TemplateVersion
	group        astypes.AutoScalingGroup
}

// membersOf lists the instances of scaling groups by their IDs. It asks for each warm pool,
// whose instances their group does not list, and once for all launch templates where a
// group names a version by a word.
func membersOf(ctx context.Context, c *kinds.Client, cluster string, groups []astypes.AutoScalingGroup) (map[string]member, error) {
	wanted, err := wantedOf(ctx, c, cluster, groups)
	if err != nil {
		return nil, err
	}
	out := map[string]member{}
	for n, g := range groups {
		add := func(list []astypes.Instance, spare bool) {
			for _, i := range list {
				out[sdk.ToString(i.InstanceId)] = member{life: i.LifecycleState, spare: spare, kind: sdk.ToString(i.InstanceType), made: madeOf(i, g, wanted[n]), wanted: wanted[n], group: g}
			}
		}
		add(g.Instances, false)
		if g.WarmPoolConfiguration == nil {
			continue
		}
		pool, err := warmPool(ctx, c, sdk.ToString(g.AutoScalingGroupName))
		if err != nil {
			return nil, err
		}
		add(pool, true)
	}
	return out, nil
}

// templateOf is the launch template of a group; nil where it has none.
func templateOf(g astypes.AutoScalingGroup) *astypes.LaunchTemplateSpecification {
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		return m.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.LaunchTemplate
}

// versionOf reads what a group or an instance says of a launch template.
func versionOf(t *astypes.LaunchTemplateSpecification) kinds.TemplateVersion {
	if t == nil {
		return kinds.TemplateVersion{}
	}
	return kinds.TemplateVersion{ID: sdk.ToString(t.LaunchTemplateId), Version: sdk.ToString(t.Version)}
}

// madeOf returns the template version that an instance was made of. A word of the group in place
// of a number counts as the word's current meaning.
func madeOf(i astypes.Instance, g astypes.AutoScalingGroup, wanted kinds.TemplateVersion) kinds.TemplateVersion {
	out := versionOf(i.LaunchTemplate)
	if t := templateOf(g); isWord(out.Version) && t != nil && out.Version == sdk.ToString(t.Version) {
		out.Version = wanted.Version
	}
	return out
}

// isWord reports whether a version is named by a word; an empty version means the default one.
func isWord(version string) bool { return version == "" || strings.HasPrefix(version, "$") }

// templatePage is the most launch templates in one answer (API reference, DescribeLaunchTemplates).
const templatePage = 200

// wantedOf returns what each group makes its instances of, as a number.
func wantedOf(ctx context.Context, c *kinds.Client, cluster string, groups []astypes.AutoScalingGroup) ([]kinds.TemplateVersion, error) {
	out := make([]kinds.TemplateVersion, len(groups))
	words := false
	for n, g := range groups {
		out[n] = versionOf(templateOf(g))
		words = words || templateOf(g) != nil && isWord(out[n].Version)
	}
	if !words {
		return out, nil
	}
	known := map[string]ec2types.LaunchTemplate{}
	pages := ec2.NewDescribeLaunchTemplatesPaginator(c.EC2, &ec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{
		{Name: sdk.String("tag:" + kinds.TagOwnerPrefix + cluster), Values: []string{kinds.Owned}}}, MaxResults: sdk.Int32(templatePage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the launch templates of %s: %w", cluster, err)
		}
		for _, t := range page.LaunchTemplates {
			known[sdk.ToString(t.LaunchTemplateId)] = t
		}
	}
	for n, v := range out {
		t, ok := known[v.ID]
		if !ok || !isWord(v.Version) {
			continue
		}
		number := t.DefaultVersionNumber
		if v.Version == kinds.Latest {
			number = t.LatestVersionNumber
		}
		out[n].Version = strconv.FormatInt(sdk.ToInt64(number), 10)
	}
	return out, nil
}
