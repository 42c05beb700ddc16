package model

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/fill"
)

// identities returns the roles of machines and service accounts, and their policies.
func (m *model) identities() ([]resource.Node, error) {
	nodes := m.sharedProfiles()
	for _, r := range m.identityRoles() {
		more, err := m.machineIdentity(r)
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", m.roleName(r), err)
		}
		nodes = append(nodes, more...)
	}
	if m.hasOIDC() {
		nodes = append(nodes, m.oidcProvider())
	}
	for _, a := range m.accounts {
		more, err := m.accountIdentity(a)
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", a.role(m), err)
		}
		nodes = append(nodes, more...)
	}
	return nodes, nil
}

// profileOf returns the ARN of the existing instance profile of a group, or "".
func profileOf(g *api.InstanceGroup) string {
	if g.Spec.IAM == nil {
		return ""
	}
	return fill.Or(g.Spec.IAM.Profile, "")
}

// profileName returns the name in the ARN of an instance profile.
func profileName(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

// sharedProfiles returns the existing instance profiles that groups use.
func (m *model) sharedProfiles() []resource.Node {
	var nodes []resource.Node
	seen := map[string]bool{}
	for _, g := range m.Groups {
		if arn := profileOf(g); arn != "" && !seen[profileName(arn)] {
			seen[profileName(arn)] = true
			nodes = append(nodes, kinds.AdoptIAMInstanceProfile(profileName(arn), arn))
		}
	}
	return nodes
}

// profileRef returns a reference to the instance profile of a group's machines, by name.
func (m *model) profileRef(g *api.InstanceGroup) resource.Value {
	if arn := profileOf(g); arn != "" {
		return kinds.IAMProfiles.Out(profileName(arn), "name")
	}
	return kinds.IAMProfiles.Out(m.roleName(g.Spec.Role), "id")
}

// machineRoles returns the roles that machines can have.
func machineRoles() []api.InstanceGroupRole {
	return []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer, api.RoleNode, api.RoleBastion}
}

// identityRoles returns the roles of machines with an IAM role of the cluster's own.
func (m *model) identityRoles() []api.InstanceGroupRole {
	var roles []api.InstanceGroupRole
	for _, r := range machineRoles() {
		for _, g := range m.groupsOf(r) {
			if profileOf(g) == "" {
				roles = append(roles, r)
				break
			}
		}
	}
	return roles
}

// ec2Service returns the EC2 service principal, which assumes roles.
func (m *model) ec2Service() string {
	if m.account.Partition == "aws-cn" {
		return "ec2.amazonaws.com.cn"
	}
	return "ec2.amazonaws.com"
}

// machineIdentity returns the IAM role, the instance profile and the
// policies of machines of a role.
func (m *model) machineIdentity(r api.InstanceGroupRole) ([]resource.Node, error) {
	name := m.roleName(r)
	who, err := trustPolicy(statement{Action: oneText("sts:AssumeRole"), Principal: map[string]texts{"Service": oneText(m.ec2Service())}})
	if err != nil {
		return nil, err
	}
	role := m.newRole(name, who)
	nodes := []resource.Node{role, kinds.IAMProfiles.New(name, kinds.IAMInstanceProfile{
		Name: name, Role: role.Out("name"), Tags: m.tags(name)})}
	grants, err := m.machineGrants(r)
	if err != nil {
		return nil, err
	}
	text, err := m.policy(grants)
	if err != nil {
		return nil, err
	}
	nodes = append(nodes, rolePolicy(name, text, role)...)
	if extra := m.spec.AdditionalPolicies[policyKey(r)]; extra != "" {
		list, err := userStatements(extra)
		if err != nil {
			return nil, fmt.Errorf("additional policies: %w", err)
		}
		text := ""
		if len(list) > 0 {
			if text, err = renderPolicy(list); err != nil {
				return nil, err
			}
		}
		nodes = append(nodes, rolePolicy("additional."+name, text, role)...)
	}
	return append(nodes, attachments(roleKey(r)+"-policyoverride", m.spec.ExternalPolicies[policyKey(r)], role)...), nil
}

// policyKey returns the key of a role in the spec's policies.
func policyKey(r api.InstanceGroupRole) string {
	if r == api.RoleControlPlane {
		return "control-plane"
	}
	return strings.ToLower(string(r))
}

func (m *model) newRole(name, who string, tags ...string) resource.Node {
	boundary := ""
	if m.spec.IAM != nil {
		boundary = fill.Or(m.spec.IAM.PermissionsBoundary, "")
	}
	return kinds.IAMRoles.New(name, kinds.IAMRole{
		Name: name, AssumeRolePolicy: who, PermissionsBoundary: boundary, Tags: m.tagsWith(name, tags...)})
}

// rolePolicy returns an inline policy of a role, unless it would allow nothing.
func rolePolicy(name, text string, role resource.Node) []resource.Node {
	if text == "" {
		return nil
	}
	return []resource.Node{kinds.IAMRolePolicies.New(name, kinds.IAMRolePolicy{Name: name, Policy: text, Role: role.Out("name")})}
}

// attachments attaches existing policies to a role, each once.
func attachments(prefix string, arns []string, role resource.Node) []resource.Node {
	var nodes []resource.Node
	for _, arn := range slices.Compact(slices.Sorted(slices.Values(arns))) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(arn)) // a hash never fails
		nodes = append(nodes, kinds.IAMAttachments.New(fmt.Sprintf("%s-%d", prefix, h.Sum32()),
			kinds.IAMAttachment{PolicyARN: arn, Role: role.Out("name")}))
	}
	return nodes
}
