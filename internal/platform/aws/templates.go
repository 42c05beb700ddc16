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

// member is an instance of a scaling group or of its warm pool.
type member struct {
	life  astypes.LifecycleState
	spare bool
	kind  string // the instance type
	// created is the launch template version that the instance was created from, and wanted the
	// version that its group uses now.
	created, wanted kinds.TemplateVersion
	group           astypes.AutoScalingGroup
}

// membersOf lists the instances of scaling groups by their IDs. It sends a request for each warm
// pool, whose instances the group does not list, and lists all launch templates once if a group
// names a version by a word, such as $Latest.
func membersOf(ctx context.Context, c *kinds.Client, cluster string, groups []astypes.AutoScalingGroup) (map[string]member, error) {
	wanted, err := wantedVersions(ctx, c, cluster, groups)
	if err != nil {
		return nil, err
	}
	out := map[string]member{}
	for n, g := range groups {
		add := func(list []astypes.Instance, spare bool) {
			for _, i := range list {
				out[sdk.ToString(i.InstanceId)] = member{life: i.LifecycleState, spare: spare, kind: sdk.ToString(i.InstanceType), created: createdVersion(i, g, wanted[n]), wanted: wanted[n], group: g}
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

// templateOf returns a group's launch template; nil if it has none.
func templateOf(g astypes.AutoScalingGroup) *astypes.LaunchTemplateSpecification {
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		return m.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.LaunchTemplate
}

// versionOf converts a launch template reference of a group or an instance.
func versionOf(t *astypes.LaunchTemplateSpecification) kinds.TemplateVersion {
	if t == nil {
		return kinds.TemplateVersion{}
	}
	return kinds.TemplateVersion{ID: sdk.ToString(t.LaunchTemplateId), Version: sdk.ToString(t.Version)}
}

// createdVersion returns the template version that an instance was created from. If it is the same word as
// the group's version, the word's current meaning applies.
func createdVersion(i astypes.Instance, g astypes.AutoScalingGroup, wanted kinds.TemplateVersion) kinds.TemplateVersion {
	out := versionOf(i.LaunchTemplate)
	if t := templateOf(g); isWord(out.Version) && t != nil && out.Version == sdk.ToString(t.Version) {
		out.Version = wanted.Version
	}
	return out
}

// isWord reports whether a version is named by a word; an empty version means the default one.
func isWord(version string) bool { return version == "" || strings.HasPrefix(version, "$") }

// templatePage is the maximum number of launch templates in one response (API reference, DescribeLaunchTemplates).
const templatePage = 200

// wantedVersions returns the template version that each group creates instances from, as a number.
func wantedVersions(ctx context.Context, c *kinds.Client, cluster string, groups []astypes.AutoScalingGroup) ([]kinds.TemplateVersion, error) {
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
