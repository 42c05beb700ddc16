package kinds

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/iam"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsname"
)

// IAMRolePolicy is an inline policy of a role.
type IAMRolePolicy struct {
	Name string `res:"forbid" tf:"name"`
	// Policy is a policy document in JSON.
	Policy string `res:",json" tf:"policy,file"`
	// Role is the role's name.
	Role resource.Value `res:"replace" tf:"role"`
}

// IAMRolePolicies is the kind of IAMRolePolicy.
var IAMRolePolicies = resource.Kind[IAMRolePolicy, *Client]{
	Name:   "aws_iam_role_policy",
	API:    apiIAM,
	Phase:  resource.Security,
	Tasks:  []string{"IAMRolePolicy"},
	Key:    func(p *IAMRolePolicy) string { return nameOf(p.Role) + "/" + p.Name },
	List:   listRolePolicies,
	Create: putRolePolicy,
	Update: []resource.Setter[IAMRolePolicy, *Client]{
		{Fields: []string{"Policy"}, Set: func(ctx context.Context, c *Client, _, want *IAMRolePolicy) error {
			return putRolePolicy(ctx, c, want)
		}},
	},
	Delete: deleteRolePolicy,
}

// listRolePolicies returns all policies of the instances' roles, because some may have to be
// deleted, and the wanted policies of other roles, which keep a single policy. For a deletion it
// returns none: they are deleted with their roles.
func listRolePolicies(ctx context.Context, c *Client, s resource.Scope) ([]*IAMRolePolicy, error) {
	if s.All {
		return nil, nil
	}
	roles, err := policyRoles(ctx, c, s)
	if err != nil {
		return nil, err
	}
	return observe.EachOf(ctx, roles, func(ctx context.Context, role string) ([]*IAMRolePolicy, error) {
		policies := wantedPolicies(s, role)
		if slices.Contains(machineRoles(s.Cluster), role) {
			var err error
			if policies, err = rolePolicyNames(ctx, c, role); err != nil {
				return nil, fault.IgnoreGone(err)
			}
		}
		return observe.Each(ctx, policies, func(ctx context.Context, name string) (*IAMRolePolicy, error) {
			return getRolePolicy(ctx, c, role, name)
		})
	})
}

// policyRoles returns the roles whose policies kops manages: the roles
// of the desired objects, whose keys begin with them, and the existing
// roles of instances, which may have lost their last policy.
func policyRoles(ctx context.Context, c *Client, s resource.Scope) ([]string, error) {
	roles := keyParts(s.Names, "/")
	for _, name := range machineRoles(s.Cluster) {
		if slices.Contains(roles, name) {
			continue
		}
		if _, known := past.Recall[bool](c.Past, absentRoleKey(c, name)); known {
			continue
		}
		found, err := getRole(ctx, c, name)
		if err != nil {
			return nil, err
		}
		if found != nil {
			roles = append(roles, name)
		} else {
			past.Remember(c.Past, absentRoleKey(c, name), true)
		}
	}
	return distinct(roles), nil
}

func machineRoles(cluster string) []string {
	var roles []string
	for _, role := range []string{"masters", "nodes", "bastions"} {
		roles = append(roles, awsname.MachineRole(role, cluster))
	}
	return roles
}

// absentRoleKey returns the memo key that records that a role does not exist.
func absentRoleKey(c *Client, role string) string { return "no role/" + c.AccountID + "/" + role }

// wantedPolicies returns the names of a role's wanted policies.
func wantedPolicies(s resource.Scope, role string) []string {
	var out []string
	for _, key := range s.Names {
		if name, ok := strings.CutPrefix(key, role+"/"); ok {
			out = append(out, name)
		}
	}
	return out
}

// rolePolicyNames lists the names of a role's policies.
func rolePolicyNames(ctx context.Context, c *Client, role string) ([]string, error) {
	names, err := pages(ctx, iam.NewListRolePoliciesPaginator(c.IAM, &iam.ListRolePoliciesInput{RoleName: &role}),
		func(p *iam.ListRolePoliciesOutput) []string { return p.PolicyNames })
	if err != nil {
		return nil, fmt.Errorf("list the policies of the role %s: %w", role, err)
	}
	return names, nil
}

func getRolePolicy(ctx context.Context, c *Client, role, name string) (*IAMRolePolicy, error) {
	out, err := c.IAM.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &role, PolicyName: &name})
	if err != nil {
		return nil, fault.IgnoreGone(err)
	}
	text, err := url.QueryUnescape(*out.PolicyDocument)
	if err != nil {
		return nil, fmt.Errorf("decode the policy %s of the role %s: %w", name, role, err)
	}
	return &IAMRolePolicy{Name: name, Policy: text, Role: resource.Lit(role)}, nil
}

func putRolePolicy(ctx context.Context, c *Client, p *IAMRolePolicy) error {
	role := p.Role.Text()
	_, err := c.IAM.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: &role, PolicyName: &p.Name, PolicyDocument: &p.Policy})
	return err
}

func deleteRolePolicy(ctx context.Context, c *Client, p *IAMRolePolicy) error {
	role := p.Role.Text()
	_, err := c.IAM.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: &role, PolicyName: &p.Name})
	return fault.IgnoreGone(err)
}
