package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"kops.local/kops/internal/platform/aws/awscloud"
)

// document is an IAM policy document. Its statements are of type
// statement, or whatever a user wrote.
type document struct {
	Statement []any
	Version   string
}

// statement allows actions on resources, under conditions.
type statement struct {
	Action    texts
	Condition conditions `json:",omitempty"`
	Effect    string
	Principal map[string]texts `json:",omitempty"`
	Resource  texts            `json:",omitzero"`
}

// conditions maps operators to the keys of a request and their required values.
type conditions map[string]map[string]texts

// texts is a text or a list of texts. IAM treats a text and a list of one text alike, but returns
// what was written.
type texts struct {
	items []string
	list  bool
}

func oneText(text string) texts      { return texts{items: []string{text}} }
func textList(items ...string) texts { return texts{items: items, list: true} }

// textSet returns the items sorted and without duplicates; a single item is not written as a list.
func textSet(items []string) texts {
	items = slices.Compact(slices.Sorted(slices.Values(items)))
	return texts{items: items, list: len(items) != 1}
}

// UnmarshalJSON decodes a text or a list.
func (t *texts) UnmarshalJSON(data []byte) error {
	if t.list = data[0] == '['; t.list {
		return json.Unmarshal(data, &t.items)
	}
	t.items = make([]string, 1)
	return json.Unmarshal(data, &t.items[0])
}

// MarshalJSON encodes a text or a list.
func (t texts) MarshalJSON() ([]byte, error) {
	if t.list {
		return json.Marshal(t.items)
	}
	return json.Marshal(t.items[0])
}

// allowStatement returns a statement without conditions.
func allowStatement(actions, resources texts) statement {
	return statement{Action: actions, Effect: "Allow", Resource: resources}
}

// withCondition returns the statement with an additional condition.
func (s statement) withCondition(operator, key string, want texts) statement {
	c := conditions{operator: {key: want}}
	for op, keys := range s.Condition {
		for k, v := range keys {
			if c[op] == nil {
				c[op] = map[string]texts{}
			}
			c[op][k] = v
		}
	}
	s.Condition = c
	return s
}

// restrictToOwned restricts a statement to resources with the cluster's tag.
func (m *model) restrictToOwned(s statement) statement {
	return s.withCondition("StringEquals", keyResourceTag+clusterTag, oneText(m.name))
}

// restrictToCreated restricts a statement to requests that set the cluster's tag on new resources.
func (m *model) restrictToCreated(s statement) statement {
	return s.withCondition("StringEquals", keyRequestTag+clusterTag, oneText(m.name))
}

// renderPolicy encodes a document of statements, indented by two spaces.
func renderPolicy(statements []any) (string, error) {
	text, err := json.MarshalIndent(document{Statement: statements, Version: "2012-10-17"}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write a policy: %w", err)
	}
	return string(text), nil
}

// userStatements decodes a user's JSON list of statements.
func userStatements(text string) ([]any, error) {
	var list []any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read a list of policy statements: %w", err)
	}
	return list, nil
}

// trustPolicy returns the policy that specifies who may assume a role.
func trustPolicy(s statement) (string, error) {
	s.Effect = "Allow"
	return renderPolicy([]any{s})
}

// grant is the permissions of one component.
type grant struct {
	order       int      // position of its statements
	anyResource []string // actions on any resource
	owned       []string // actions on resources with the cluster's tag
	creating    []string // actions that create resources with the cluster's tag
	more        []statement
}

// clusterTag is the tag by which policies recognize the cluster's resources.
const clusterTag = awscloud.ClusterTag

// Keys of conditions.
const (
	keyResourceTag = "aws:ResourceTag/" // followed by a tag's key: a tag of the resource
	keyRequestTag  = "aws:RequestTag/"  // followed by a tag's key: a tag in the request
)

// policy merges grants into one document; "" if they grant nothing.
func (m *model) policy(grants []grant) (string, error) {
	var all grant
	for _, g := range grants {
		all.anyResource, all.owned = append(all.anyResource, g.anyResource...), append(all.owned, g.owned...)
		all.creating, all.more = append(all.creating, g.creating...), append(all.more, g.more...)
	}
	add := func(actions []string, s statement) {
		if len(actions) > 0 {
			s.Action, s.Effect, s.Resource = textSet(actions), "Allow", oneText("*")
			all.more = append(all.more, s)
		}
	}
	add(all.anyResource, statement{})
	add(all.owned, m.restrictToOwned(statement{}))
	add(all.creating, m.restrictToCreated(statement{}))
	if slices.Contains(all.creating, "ec2:CreateSecurityGroup") { // it also needs the VPC
		all.more = append(all.more, allowStatement(oneText("ec2:CreateSecurityGroup"), oneText(m.ec2ARN("vpc"))))
	}
	if len(all.more) == 0 {
		return "", nil
	}
	statements := make([]any, len(all.more))
	for i, s := range all.more {
		statements[i] = s
	}
	return renderPolicy(statements)
}

// arn returns an ARN in the account's partition.
func (m *model) arn(service, rest string) string {
	return "arn:" + m.account.Partition + ":" + service + ":" + rest
}

// ec2ARN matches all resources of a type.
func (m *model) ec2ARN(kind string) string { return m.arn("ec2", "*:*:"+kind+"/*") }

// grantTagging allows a component to tag the objects that it creates with the given actions, and to
// change the tags of the cluster's objects, but never their owner.
func (m *model) grantTagging(resources texts, actions ...string) []statement {
	return []statement{
		allowStatement(oneText("ec2:CreateTags"), resources).
			withCondition("StringEquals", keyRequestTag+clusterTag, oneText(m.name)).
			withCondition("StringEquals", "ec2:CreateAction", textList(actions...)),
		allowStatement(textList("ec2:CreateTags", "ec2:DeleteTags"), resources).
			withCondition("Null", keyRequestTag+clusterTag, oneText("true")).
			withCondition("StringEquals", keyResourceTag+clusterTag, oneText(m.name)),
	}
}
