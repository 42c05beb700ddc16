package kinds

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/aws/awsname"
)

// IAMRole is an identity that instances or service accounts assume. Its node must have the role's
// name, because policies and attachments are keyed by it.
type IAMRole struct {
	Name string `res:"forbid" tf:"name"` // at most 64 characters
	// AssumeRolePolicy is a policy document in JSON: who may assume the role.
	AssumeRolePolicy string `res:",json" tf:"assume_role_policy,file=policy"`
	// PermissionsBoundary is the ARN of a policy; empty if there is no boundary.
	PermissionsBoundary string `tf:"permissions_boundary"`
	Tags                Tags   `tf:"tags"`

	ARN string `res:"out,id" out:"arn"`
	// ID is the role's name, as in Terraform, for references to "id" …
	ID string `res:"out" out:"id"`
	// RoleName … and to "name".
	RoleName string `res:"out" out:"name"`
}

// IAMRoles is the kind of IAMRole.
var IAMRoles = resource.Kind[IAMRole, *Client]{
	Name:   "aws_iam_role",
	API:    apiIAM,
	Phase:  resource.Security,
	Tasks:  []string{"IAMRole"},
	Key:    func(r *IAMRole) string { return r.Name },
	List:   listRoles,
	Create: createRole,
	Update: []resource.Setter[IAMRole, *Client]{
		{Fields: []string{"AssumeRolePolicy"}, Set: setAssumeRolePolicy},
		{Fields: []string{"PermissionsBoundary"}, Set: setPermissionsBoundary},
		{Fields: []string{"Tags"}, Set: setRoleTags},
	},
	Delete: deleteRole,
}

func listRoles(ctx context.Context, c *Client, s resource.Scope) ([]*IAMRole, error) {
	names := namesToList(s)
	if s.All {
		roles, err := pages(ctx, iam.NewListRolesPaginator(c.IAM, &iam.ListRolesInput{MaxItems: new(iamPage)}),
			func(p *iam.ListRolesOutput) []iamtypes.Role { return p.Roles })
		if err != nil {
			return nil, fmt.Errorf("list roles: %w", err)
		}
		for _, r := range roles {
			if mayBelong(*r.RoleName, s.Cluster) {
				names = append(names, *r.RoleName)
			}
		}
	}
	return observe.Each(ctx, distinct(names), func(ctx context.Context, name string) (*IAMRole, error) {
		found, err := getRole(ctx, c, name)
		if found == nil || err != nil {
			return nil, err
		}
		r, err := observedRole(found)
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", name, err)
		}
		return filterIAM(s, r, "the role", name, r.ARN, r.Tags)
	})
}

// getRole returns the role with a name, or nil.
func getRole(ctx context.Context, c *Client, name string) (*iamtypes.Role, error) {
	return oncePerSnapshot(ctx, c, "role "+name, func(ctx context.Context) (*iamtypes.Role, error) {
		out, err := c.IAM.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
		if err != nil {
			return nil, fault.IgnoreGone(err)
		}
		return out.Role, nil
	})
}

func observedRole(r *iamtypes.Role) (*IAMRole, error) {
	trust, err := url.QueryUnescape(deref(r.AssumeRolePolicyDocument))
	if err != nil {
		return nil, fmt.Errorf("decode its trust policy: %w", err)
	}
	out := &IAMRole{Name: *r.RoleName, AssumeRolePolicy: trust, Tags: iamTagMap(r.Tags),
		ARN: *r.Arn, ID: *r.RoleName, RoleName: *r.RoleName}
	if b := r.PermissionsBoundary; b != nil {
		out.PermissionsBoundary = deref(b.PermissionsBoundaryArn)
	}
	return out, nil
}

func createRole(ctx context.Context, c *Client, r *IAMRole) error {
	past.Forget(c.Past, absentRoleKey(c, r.Name))
	defer past.Forget(c.Past, absentRoleKey(c, r.Name))
	out, err := c.IAM.CreateRole(ctx, &iam.CreateRoleInput{
		RoleName:                 &r.Name,
		AssumeRolePolicyDocument: &r.AssumeRolePolicy,
		PermissionsBoundary:      stringOrNil(r.PermissionsBoundary),
		Tags:                     iamTags(r.Tags),
	})
	if err != nil {
		return err
	}
	r.ARN, r.ID, r.RoleName = *out.Role.Arn, r.Name, r.Name
	return nil
}

func setAssumeRolePolicy(ctx context.Context, c *Client, have, want *IAMRole) error {
	_, err := c.IAM.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{
		RoleName: &have.Name, PolicyDocument: &want.AssumeRolePolicy})
	return err
}

func setPermissionsBoundary(ctx context.Context, c *Client, have, want *IAMRole) error {
	if want.PermissionsBoundary == "" {
		_, err := c.IAM.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: &have.Name})
		return err
	}
	_, err := c.IAM.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{
		RoleName: &have.Name, PermissionsBoundary: &want.PermissionsBoundary})
	return err
}

func setRoleTags(ctx context.Context, c *Client, have, want *IAMRole) error {
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			_, err := c.IAM.TagRole(ctx, &iam.TagRoleInput{RoleName: &have.Name, Tags: iamTags(set)})
			return err
		},
		func(drop []string) error {
			_, err := c.IAM.UntagRole(ctx, &iam.UntagRoleInput{RoleName: &have.Name, TagKeys: drop})
			return err
		})
}

// deleteRole deletes the role and everything that anyone attached to it: IAM refuses to delete a
// role with attachments.
func deleteRole(ctx context.Context, c *Client, r *IAMRole) error {
	in := &iam.DeleteRoleInput{RoleName: &r.Name}
	_, err := c.IAM.DeleteRole(ctx, in)
	if !hasCode(err, "DeleteConflict") {
		return fault.IgnoreGone(err)
	}
	for _, empty := range []func(context.Context, *Client, string) error{removeFromProfiles, deletePolicies, detachPolicies} {
		if err := empty(ctx, c, r.Name); fault.IgnoreGone(err) != nil {
			return err
		}
	}
	_, err = c.IAM.DeleteRole(ctx, in)
	return fault.IgnoreGone(err)
}

func removeFromProfiles(ctx context.Context, c *Client, role string) error {
	profiles, err := pages(ctx, iam.NewListInstanceProfilesForRolePaginator(c.IAM, &iam.ListInstanceProfilesForRoleInput{RoleName: &role}),
		func(p *iam.ListInstanceProfilesForRoleOutput) []iamtypes.InstanceProfile { return p.InstanceProfiles })
	for _, p := range profiles {
		if err := removeRole(ctx, c, *p.InstanceProfileName, role); err != nil {
			return err
		}
	}
	return err
}

func deletePolicies(ctx context.Context, c *Client, role string) error {
	names, err := rolePolicyNames(ctx, c, role)
	for _, name := range names {
		if err := deleteRolePolicy(ctx, c, &IAMRolePolicy{Name: name, Role: resource.Lit(role)}); err != nil {
			return err
		}
	}
	return err
}

func detachPolicies(ctx context.Context, c *Client, role string) error {
	attached, err := attachmentsOf(ctx, c, role)
	for _, a := range attached {
		if err := detachPolicy(ctx, c, a); err != nil {
			return err
		}
	}
	return err
}

// iamPage is the maximum number of items in one response of IAM (API reference, MaxItems).
const iamPage int32 = 1000

// mayBelong reports whether a role or profile may be the cluster's by its name: it ends with the
// cluster's name, or it was truncated. Its tags show whether it is.
func mayBelong(name, cluster string) bool {
	return strings.HasSuffix(name, "."+cluster) || len(name) == awsname.MaxRole && name[awsname.MaxRole-names.Tail] == '-'
}

// filterIAM returns an observed object if it is in scope or shared. IAM names are unique per account,
// so a name that the cluster wants may belong to someone else.
func filterIAM[T any](s resource.Scope, obj *T, what, name, arn string, tags map[string]string) (*T, error) {
	switch {
	case isInScope(s, tags), slices.Contains(s.Adopted, arn):
		return obj, nil
	case slices.Contains(s.Names, name):
		return nil, foreignError(what, name, s.Cluster)
	}
	return nil, nil
}

func iamTags(tags map[string]string) []iamtypes.Tag {
	return pairs(tags, func(k, v *string) iamtypes.Tag { return iamtypes.Tag{Key: k, Value: v} })
}

func iamTagMap(tags []iamtypes.Tag) map[string]string {
	return tagsOf(tags, func(t iamtypes.Tag) (*string, *string) { return t.Key, t.Value })
}
