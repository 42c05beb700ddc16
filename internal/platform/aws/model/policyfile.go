package model

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/catalogue"
)

// policyFile is policy-aws.yaml of an add-on, filled in: what it may do as its service
// account, or with the identity of machines where accounts have no roles.
type policyFile struct {
	// Order is the position of its statements among the others; 0 comes last.
	Order int `json:"order"`
	// Machines are the roles whose machines run it.
	Machines []api.InstanceGroupRole `json:"machines"`
	// Any are actions on anything, Owned on what carries the cluster's tag, and Made are
	// those that make something with the tag.
	Any   []string `json:"any"`
	Owned []string `json:"owned"`
	Made  []string `json:"made"`
	// Statements are further ones, as IAM writes them.
	Statements []statement `json:"statements"`
}

func (p *policyFile) grant() grant {
	const last = 1000
	g := grant{order: p.Order, free: p.Any, owned: p.Owned, made: p.Made, more: p.Statements}
	if g.order == 0 {
		g.order = last
	}
	return g
}

// policyView is what the policies of add-ons see.
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

// TemplateFunc returns a function that policies call.
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

// policy fills in what an add-on may do; nil where it has no policy, or nobody acts as its account.
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

// ARN is the name of something in the account's partition.
func (v *policyView) ARN(service, rest string) string { return v.m.arn(service, rest) }

// EC2 are the ARNs of all things of some kinds.
func (v *policyView) EC2(kinds ...string) []string {
	var arns []string
	for _, k := range kinds {
		arns = append(arns, v.m.ec2ARN(k))
	}
	return arns
}

// Owned returns the condition that the object of the action has the cluster's tag, and Made the
// condition that a new object gets it.
func (v *policyView) Owned() (string, error) { return v.m.whereOwned(statement{}).condition() }

// Made returns the condition described at Owned.
func (v *policyView) Made() (string, error) { return v.m.whereMade(statement{}).condition() }

// Tagging lets things be tagged as they are made by some actions.
func (v *policyView) Tagging(resources []string, actions ...string) []statement {
	return v.m.tagging(list(resources...), actions...)
}

// Keys lets volumes and files be encrypted by keys of the account.
func (v *policyView) Keys() []statement { return v.m.grantKeys().more }

// Zone is the zone of the cluster's names; none where it is not there yet.
func (v *policyView) Zone() []string {
	z, err := v.m.zone()
	if err != nil {
		return nil
	}
	return []string{z.ID}
}

// Zones lets names of zones be kept.
func (v *policyView) Zones(ids []string) []statement {
	if len(ids) == 0 {
		return nil
	}
	return v.m.dnsStatements(ids...)
}

// Interfaces lets a pod network make and use network interfaces, with the security
// groups that machines of the role may have.
func (v *policyView) Interfaces(also ...string) []statement {
	if v.Role == string(api.RoleNode) {
		return v.m.interfaces(v.m.networkGroupsOfWorkers(), also...)
	}
	return v.m.interfaces(v.m.networkGroups(), also...)
}

// Queue is the ARN of the queue that announces machines about to end.
func (v *policyView) Queue() string { return v.m.queueARN() }

// MachineRole is the ARN of the role of machines. AWS lets nobody pass on a role of another
// account, so any account may stand in it.
func (v *policyView) MachineRole(role string) string {
	return v.m.arn("iam", ":*:role/"+v.m.roleName(api.InstanceGroupRole(role)))
}

// EC2Service is EC2 as somebody who takes roles on.
func (v *policyView) EC2Service() string { return v.m.ec2Service() }

// String writes the statement as JSON, which a template can put into a policy.
func (s statement) String() string {
	text, err := json.Marshal(s)
	if err != nil { // texts and lists of them can always be written
		panic(err)
	}
	return string(text)
}

// condition writes the conditions of a statement as JSON.
func (s statement) condition() (string, error) {
	text, err := json.Marshal(s.Condition)
	return string(text), err
}
