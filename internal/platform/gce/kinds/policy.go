package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/storage/v1"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// policyVersion is the version that includes conditions (IAM, "Policies").
const policyVersion = 3

// policy is the IAM policy of a project or a bucket. A write sends the policy with the etag that
// was read, so that it fails if the policy was changed in between.
type policy struct {
	grants []grant
	// add grants a member a role for which the policy has no unconditional binding yet.
	add func(role, member string)
	// write replaces the policy.
	write func(context.Context) error
}

// grant is a role, and its members.
type grant struct {
	role        string
	members     *[]string
	conditional bool
}

// policySource reads the IAM policy of a project, projects/P, or of a bucket, b/B.
type policySource func(context.Context) (*policy, error)

func (c *Client) projectPolicy(project string) policySource {
	return func(ctx context.Context) (*policy, error) {
		p, err := gceapi.Result(c.Projects.Projects.GetIamPolicy(project, &cloudresourcemanager.GetIamPolicyRequest{
			Options: &cloudresourcemanager.GetPolicyOptions{RequestedPolicyVersion: policyVersion}}).Context(ctx).Do())
		if err != nil {
			return nil, err
		}
		out := &policy{}
		for _, b := range p.Bindings {
			out.grants = append(out.grants, grant{b.Role, &b.Members, b.Condition != nil})
		}
		out.add = func(role, member string) {
			p.Bindings = append(p.Bindings, &cloudresourcemanager.Binding{Role: role, Members: []string{member}})
		}
		out.write = func(ctx context.Context) error {
			p.Version, p.ForceSendFields = policyVersion, []string{"Bindings"} // also when there are none left
			p.Bindings = slices.DeleteFunc(p.Bindings, func(b *cloudresourcemanager.Binding) bool { return len(b.Members) == 0 })
			_, err := gceapi.Result(c.Projects.Projects.SetIamPolicy(project, &cloudresourcemanager.SetIamPolicyRequest{Policy: p}).Context(ctx).Do())
			return err
		}
		return out, nil
	}
}

func (c *Client) bucketPolicy(bucket string) policySource {
	return func(ctx context.Context) (*policy, error) {
		p, err := gceapi.Result(c.Storage.Buckets.GetIamPolicy(bucket).OptionsRequestedPolicyVersion(policyVersion).Context(ctx).Do())
		if err != nil {
			return nil, err
		}
		out := &policy{}
		for _, b := range p.Bindings {
			out.grants = append(out.grants, grant{b.Role, &b.Members, b.Condition != nil})
		}
		out.add = func(role, member string) {
			p.Bindings = append(p.Bindings, &storage.PolicyBindings{Role: role, Members: []string{member}})
		}
		out.write = func(ctx context.Context) error {
			p.Version, p.ForceSendFields = policyVersion, []string{"Bindings"} // also when there are none left
			p.Bindings = slices.DeleteFunc(p.Bindings, func(b *storage.PolicyBindings) bool { return len(b.Members) == 0 })
			_, err := gceapi.Result(c.Storage.Buckets.SetIamPolicy(bucket, p).Context(ctx).Do())
			return err
		}
		return out, nil
	}
}

// readPolicy reads a policy, once per snapshot. The result must not be modified.
func readPolicy(ctx context.Context, c *Client, name string, of policySource) (*policy, error) {
	return once.Ask(ctx, c.answers, "policy of "+name, of)
}

// grantRole grants a member a role without a condition.
func grantRole(ctx context.Context, c *Client, name string, of policySource, role, member string) error {
	defer c.lock("policy of " + name)()
	p, err := of(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(p.grants, func(g grant) bool { return g.role == role && !g.conditional })
	switch {
	case i < 0:
		p.add(role, member)
	case slices.Contains(*p.grants[i].members, member):
		return nil
	default:
		*p.grants[i].members = append(*p.grants[i].members, member)
	}
	return p.write(ctx)
}

// revokeRole revokes a role from a member, and from a deleted account with the same email.
func revokeRole(ctx context.Context, c *Client, name string, of policySource, role, member string) error {
	defer c.lock("policy of " + name)()
	p, err := of(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, g := range p.grants {
		if g.role != role || g.conditional {
			continue
		}
		n := len(*g.members)
		*g.members = slices.DeleteFunc(*g.members, func(m string) bool { return plainMember(m) == member })
		found = found || len(*g.members) < n
	}
	if !found {
		return nil
	}
	return p.write(ctx)
}
