package kinds

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// IAMInstanceProfile gives instances a role.
type IAMInstanceProfile struct {
	Name string `res:"forbid" tf:"name"`
	// Role is the role's name.
	Role resource.Value `res:",post" tf:"role"`
	Tags Tags           `tf:"tags"`

	ARN string `res:"out,id" out:"arn"`
	// ID is the profile's name, as in Terraform, for references to "id" …
	ID string `res:"out" out:"id"`
	// ProfileName … and to "name".
	ProfileName string `res:"out" out:"name"`
}

// IAMProfiles is the kind of IAMInstanceProfile.
var IAMProfiles = resource.Kind[IAMInstanceProfile, *Client]{
	Name:   "aws_iam_instance_profile",
	API:    apiIAM,
	Phase:  resource.Security,
	Tasks:  []string{"IAMInstanceProfile", "IAMInstanceProfileRole"},
	Key:    func(p *IAMInstanceProfile) string { return p.Name },
	List:   listProfiles,
	Create: createProfile,
	Update: []resource.Setter[IAMInstanceProfile, *Client]{
		{Fields: []string{"Role"}, Set: setProfileRole},
		{Fields: []string{"Tags"}, Set: setProfileTags},
	},
	Delete: deleteProfile,
}

// AdoptIAMInstanceProfile declares a shared profile by its ARN.
func AdoptIAMInstanceProfile(name, arn string) resource.Node {
	n := lastSegment(arn)
	return IAMProfiles.Adopt(name, arn, IAMInstanceProfile{Name: n, ARN: arn, ID: n, ProfileName: n})
}

func listProfiles(ctx context.Context, c *Client, s resource.Scope) ([]*IAMInstanceProfile, error) {
	names := namesToList(s)
	if s.All {
		profiles, err := pages(ctx, iam.NewListInstanceProfilesPaginator(c.IAM, &iam.ListInstanceProfilesInput{MaxItems: new(iamPage)}),
			func(p *iam.ListInstanceProfilesOutput) []iamtypes.InstanceProfile { return p.InstanceProfiles })
		if err != nil {
			return nil, fmt.Errorf("list instance profiles: %w", err)
		}
		for _, p := range profiles {
			if mayBelong(*p.InstanceProfileName, s.Cluster) {
				names = append(names, *p.InstanceProfileName)
			}
		}
	}
	return observe.Each(ctx, distinct(names), func(ctx context.Context, name string) (*IAMInstanceProfile, error) {
		p, err := getProfile(ctx, c, name)
		if p == nil || err != nil {
			return nil, err
		}
		return filterIAM(s, p, "the instance profile", name, p.ARN, p.Tags)
	})
}

// getProfile observes a profile; it returns nil without an error if the profile does not exist.
func getProfile(ctx context.Context, c *Client, name string) (*IAMInstanceProfile, error) {
	out, err := c.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		return nil, fault.IgnoreGone(err)
	}
	p := &IAMInstanceProfile{Name: name, Tags: iamTagMap(out.InstanceProfile.Tags),
		ARN: *out.InstanceProfile.Arn, ID: name, ProfileName: name}
	for _, r := range out.InstanceProfile.Roles { // at most one
		p.Role = resource.Lit(*r.RoleName)
	}
	return p, nil
}

func createProfile(ctx context.Context, c *Client, p *IAMInstanceProfile) error {
	out, err := c.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: &p.Name, Tags: iamTags(p.Tags)})
	if err != nil {
		return err
	}
	p.ARN, p.ID, p.ProfileName = *out.InstanceProfile.Arn, p.Name, p.Name
	return nil
}

func setProfileRole(ctx context.Context, c *Client, have, want *IAMInstanceProfile) error {
	if !have.Role.IsZero() {
		if err := removeRole(ctx, c, have.Name, have.Role.Text()); err != nil {
			return err
		}
	}
	if want.Role.IsZero() {
		return nil
	}
	role := want.Role.Text()
	_, err := c.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &have.Name, RoleName: &role})
	if hasCode(err, "LimitExceeded") { // an earlier attempt whose response was lost may have added the role
		if now, gerr := getProfile(ctx, c, have.Name); gerr == nil && now != nil && now.Role.Text() == role {
			return nil
		}
	}
	return err
}

func setProfileTags(ctx context.Context, c *Client, have, want *IAMInstanceProfile) error {
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			_, err := c.IAM.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: &have.Name, Tags: iamTags(set)})
			return err
		},
		func(drop []string) error {
			_, err := c.IAM.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: &have.Name, TagKeys: drop})
			return err
		})
}

// deleteProfile deletes the profile after removing its role, because IAM refuses to delete a
// profile that contains a role.
func deleteProfile(ctx context.Context, c *Client, p *IAMInstanceProfile) error {
	if !p.Role.IsZero() {
		if err := removeRole(ctx, c, p.Name, p.Role.Text()); err != nil {
			return err
		}
	}
	_, err := c.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &p.Name})
	return fault.IgnoreGone(err)
}

// removeRole removes a role from a profile; it is not an error if the role is not in it.
func removeRole(ctx context.Context, c *Client, profile, role string) error {
	_, err := c.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &profile, RoleName: &role})
	return fault.IgnoreGone(err)
}
