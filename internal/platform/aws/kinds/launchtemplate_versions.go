package kinds

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
)

// TemplateVersion is one version of a launch template, as a number.
type TemplateVersion struct{ ID, Version string }

// TemplateVersions returns the data of versions of launch templates; versions that no longer exist
// are left out. One paginated request finds the latest versions, and one more request for each
// template finds its others.
func TemplateVersions(ctx context.Context, c *Client, want []TemplateVersion) (map[TemplateVersion]*LaunchTemplate, error) {
	missing, templates := map[string][]string{}, map[string]bool{}
	for _, v := range want {
		if v.ID == "" || slices.Contains(missing[v.ID], v.Version) {
			continue
		}
		templates[v.ID] = true
		missing[v.ID] = append(missing[v.ID], v.Version)
	}
	out := map[TemplateVersion]*LaunchTemplate{}
	note := func(v ec2types.LaunchTemplateVersion) {
		at := TemplateVersion{aws.ToString(v.LaunchTemplateId), strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10)}
		if i := slices.Index(missing[at.ID], at.Version); i >= 0 && v.LaunchTemplateData != nil {
			out[at] = templateOf(v.LaunchTemplateData)
			missing[at.ID] = slices.Delete(missing[at.ID], i, i+1)
		}
	}
	latest, err := listLatestVersions(ctx, c, templates)
	if err != nil {
		return nil, err
	}
	for _, v := range latest {
		note(v)
	}
	maps.DeleteFunc(missing, func(_ string, versions []string) bool { return len(versions) == 0 })
	found, err := observe.EachOf(ctx, slices.Sorted(maps.Keys(missing)), func(ctx context.Context, id string) ([]*ec2types.LaunchTemplateVersion, error) {
		o, err := c.EC2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, Versions: missing[id]})
		if err != nil {
			return nil, fault.IgnoreGone(err)
		}
		var list []*ec2types.LaunchTemplateVersion
		for i := range o.LaunchTemplateVersions {
			list = append(list, &o.LaunchTemplateVersions[i])
		}
		return list, nil
	})
	for _, v := range found {
		note(*v)
	}
	return out, err
}
