package model

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/catalogue"
)

// policyFile is an add-on's policy-aws.yaml, rendered: its permissions with its service account, or
// with the machines' identity if accounts have no roles.
type policyFile struct {
	// Order is the position of its statements among the others; 0 comes last.
	Order int `json:"order"`
	// Machines are the roles of the machines that run it.
	Machines []api.InstanceGroupRole `json:"machines"`
	// Any are actions on any resource, Owned are actions on resources with the cluster's tag, and
	// Made are actions that create resources with the tag.
	Any   []string `json:"any"`
	Owned []string `json:"owned"`
	Made  []string `json:"made"`
	// Statements are additional statements, as IAM writes them.
	Statements []statement `json:"statements"`
}

func (p *policyFile) grant() grant {
	const last = 1000
	g := grant{order: p.Order, anyResource: p.Any, owned: p.Owned, creating: p.Made, more: p.Statements}
	if g.order == 0 {
		g.order = last
	}
	return g
}

// policyView is the data for the templates of add-ons' policies.
type policyView struct {
	*catalogue.View
	// Role is the role of the machines; empty for a service account.
	Role                         string
	Region, AccountID, Partition string

	m *model
}

func (m *model) policyView(r api.InstanceGroupRole) *policyView {
	on := spec.Platform().Traits
	return &policyView{View: catalogue.ViewOf(m.Cluster, m.Groups, &on), Role: string(r),
		Region: m.facts.Region, AccountID: m.account.AccountID, Partition: m.account.Partition, m: m}
}

// TemplateFunc returns a function for the templates.
func (v *policyView) TemplateFunc(name string) any {
	switch name {
	case "ARN":
		return v.ARN
	case "EC2":
		return v.EC2
	case "EC2Service":
		return v.EC2Service
	case "Interfaces":
		return v.Interfaces
	case "Keys":
		return v.Keys
	case "MachineRole":
		return v.MachineRole
	case "Made":
		return v.Made
	case "Owned":
		return v.Owned
	case "Queue":
		return v.Queue
	case "Tagging":
		return v.Tagging
	case "Zone":
		return v.Zone
	case "Zones":
		return v.Zones
	}
	return v.View.TemplateFunc(name)
}

// policy renders an add-on's policy; nil if it has none, or if its account is not used.
func (v *policyView) policy(a *catalogue.Addon) (*policyFile, error) {
	t, err := a.Policy(string(api.CloudAWS))
	if err != nil || t == nil {
		return nil, err
	}
	if on, err := a.Account.When.Holds(v); err != nil || !on {
		return nil, err
	}
	text, err := t.Execute(v)
	if err != nil {
		return nil, fmt.Errorf("fill in the policy of an add-on: %w", err)
	}
	p := &policyFile{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.Name(), err)
	}
	for i := range p.Statements {
		p.Statements[i].Effect = "Allow"
	}
	return p, nil
}

// ARN returns an ARN in the account's partition.
func (v *policyView) ARN(service, rest string) string { return v.m.arn(service, rest) }

// EC2 returns the ARNs that match all resources of the types.
func (v *policyView) EC2(kinds ...string) []string {
	var arns []string
	for _, k := range kinds {
		arns = append(arns, v.m.ec2ARN(k))
	}
	return arns
}

// Owned returns the condition that the action's resource has the cluster's tag.
func (v *policyView) Owned() (string, error) { return v.m.restrictToOwned(statement{}).condition() }

// Made returns the condition that a new resource gets the cluster's tag.
func (v *policyView) Made() (string, error) { return v.m.restrictToCreated(statement{}).condition() }

// Tagging allows tagging resources when the given actions create them, and changing tags of the
// cluster's resources, except the owner.
func (v *policyView) Tagging(resources []string, actions ...string) []statement {
	return v.m.grantTagging(textList(resources...), actions...)
}

// Keys allows the encryption of volumes and files with keys of the account.
func (v *policyView) Keys() []statement { return v.m.grantKeys().more }

// Zone returns the zone of the cluster's names; nil if it does not exist yet.
func (v *policyView) Zone() []string {
	z, err := v.m.zone()
	if err != nil {
		return nil
	}
	return []string{z.ID}
}

// Zones allows changing the records of zones.
func (v *policyView) Zones(ids []string) []statement {
	if len(ids) == 0 {
		return nil
	}
	return v.m.dnsStatements(ids...)
}

// Interfaces allows a pod network to create and use network interfaces, with the security groups
// that machines of the role may have.
func (v *policyView) Interfaces(also ...string) []statement {
	if v.Role == string(api.RoleNode) {
		return v.m.interfaces(v.m.networkGroupsOfWorkers(), also...)
	}
	return v.m.interfaces(v.m.networkGroups(), also...)
}

// Queue returns the ARN of the queue that announces machines about to be terminated.
func (v *policyView) Queue() string { return v.m.queueARN() }

// MachineRole returns the ARN of the IAM role of machines. AWS does not allow passing a role of
// another account, so the account may be a wildcard.
func (v *policyView) MachineRole(role string) string {
	return v.m.arn("iam", ":*:role/"+v.m.roleName(api.InstanceGroupRole(role)))
}

// EC2Service returns the EC2 service principal, which assumes roles.
func (v *policyView) EC2Service() string { return v.m.ec2Service() }

// String returns the statement as JSON, for use in a policy's template.
func (s statement) String() string {
	text, err := json.Marshal(s)
	if err != nil { // texts can always be encoded
		panic(err)
	}
	return string(text)
}

// condition returns the conditions of a statement as JSON.
func (s statement) condition() (string, error) {
	text, err := json.Marshal(s.Condition)
	return string(text), err
}
