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

// IAMAttachment attaches a standalone policy to a role.
type IAMAttachment struct {
	PolicyARN string `res:"forbid" tf:"policy_arn"`
	// Role is the role's name.
	Role resource.Value `res:"replace" tf:"role"`
}

// IAMAttachments is the kind of IAMAttachment.
var IAMAttachments = resource.Kind[IAMAttachment, *Client]{
	Name:   "aws_iam_role_policy_attachment",
	API:    apiIAM,
	Phase:  resource.Security,
	Key:    func(a *IAMAttachment) string { return nameOf(a.Role) + "/" + a.PolicyARN },
	List:   listAttachments,
	Create: attachPolicy,
	Delete: detachPolicy,
}

// listAttachments lists the attachments of the same roles as listRolePolicies.
func listAttachments(ctx context.Context, c *Client, s resource.Scope) ([]*IAMAttachment, error) {
	if s.All {
		return nil, nil
	}
	roles, err := policyRoles(ctx, c, s)
	if err != nil {
		return nil, err
	}
	return observe.EachOf(ctx, roles, func(ctx context.Context, role string) ([]*IAMAttachment, error) {
		list, err := attachmentsOf(ctx, c, role)
		return list, fault.IgnoreGone(err)
	})
}

// attachmentsOf lists the policies that are attached to a role.
func attachmentsOf(ctx context.Context, c *Client, role string) ([]*IAMAttachment, error) {
	attached, err := pages(ctx, iam.NewListAttachedRolePoliciesPaginator(c.IAM, &iam.ListAttachedRolePoliciesInput{RoleName: &role}),
		func(p *iam.ListAttachedRolePoliciesOutput) []iamtypes.AttachedPolicy { return p.AttachedPolicies })
	if err != nil {
		return nil, fmt.Errorf("list the policies attached to the role %s: %w", role, err)
	}
	out := make([]*IAMAttachment, len(attached))
	for i, p := range attached {
		out[i] = &IAMAttachment{PolicyARN: *p.PolicyArn, Role: resource.Lit(role)}
	}
	return out, nil
}

// attachPolicy waits for a role that was just created, but not for the
// policy, which kops does not create.
func attachPolicy(ctx context.Context, c *Client, a *IAMAttachment) error {
	role := a.Role.Text()
	_, err := c.IAM.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &role, PolicyArn: &a.PolicyARN})
	if !fault.Is(err, fault.NotYet) {
		return err
	}
	if _, rerr := c.IAM.GetRole(ctx, &iam.GetRoleInput{RoleName: &role}); rerr != nil {
		return err
	}
	return fault.Wrap(fault.Permanent, err, "create the policy, or remove it from spec.externalPolicies")
}

func detachPolicy(ctx context.Context, c *Client, a *IAMAttachment) error {
	role := a.Role.Text()
	_, err := c.IAM.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: &role, PolicyArn: &a.PolicyARN})
	return fault.IgnoreGone(err)
}
