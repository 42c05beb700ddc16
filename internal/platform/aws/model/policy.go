package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"kops.local/kops/internal/platform/aws/awscloud"
)

// document is a policy document of IAM. Its statements are of type statement,
// or what a user wrote.
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

// conditions are, by operator, the keys of a request and what they must be.
type conditions map[string]map[string]texts

// texts is one text or a list of them. IAM reads a text and a list of one alike,
// but shows again what was written.
type texts struct {
	items []string
	list  bool
}

func one(text string) texts      { return texts{items: []string{text}} }
func list(items ...string) texts { return texts{items: items, list: true} }

// set returns the sorted items, each once; a single item is written without a list.
func set(items []string) texts {
	items = slices.Compact(slices.Sorted(slices.Values(items)))
	return texts{items: items, list: len(items) != 1}
}

// UnmarshalJSON reads a text or a list.
func (t *texts) UnmarshalJSON(data []byte) error {
	if t.list = data[0] == '['; t.list {
		return json.Unmarshal(data, &t.items)
	}
	t.items = make([]string, 1)
	return json.Unmarshal(data, &t.items[0])
}

// MarshalJSON writes a text or a list.
func (t texts) MarshalJSON() ([]byte, error) {
	if t.list {
		return json.Marshal(t.items)
	}
	return json.Marshal(t.items[0])
}

// allow returns a statement without conditions.
func allow(actions, resources texts) statement {
	return statement{Action: actions, Effect: "Allow", Resource: resources}
}

// under returns the statement with one more condition.
func (s statement) under(operator, key string, want texts) statement {
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

// whereOwned bounds a statement to things that carry the cluster's tag.
func (m *model) whereOwned(s statement) statement {
	return s.under("StringEquals", keyResourceTag+clusterTag, one(m.name))
}

// whereMade bounds a statement to requests that give what is made the cluster's tag.
func (m *model) whereMade(s statement) statement {
	return s.under("StringEquals", keyRequestTag+clusterTag, one(m.name))
}

// render writes a document of statements, indented by two spaces.
func render(statements []any) (string, error) {
	text, err := json.MarshalIndent(document{Statement: statements, Version: "2012-10-17"}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write a policy: %w", err)
	}
	return string(text), nil
}

// userStatements reads what a user wrote: a JSON list of statements.
func userStatements(text string) ([]any, error) {
	var list []any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read a list of policy statements: %w", err)
	}
	return list, nil
}

// trust writes the policy that says who may take a role on.
func trust(s statement) (string, error) {
	s.Effect = "Allow"
	return render([]any{s})
}

// grant is what one component asks for.
type grant struct {
	order int      // where its statements stand
	free  []string // what it does to anything
	owned []string // what it does to things that carry the cluster's tag
	made  []string // what it makes, with the cluster's tag
	more  []statement
}

// clusterTag is the tag by which policies know what is the cluster's.
const clusterTag = awscloud.ClusterTag

// Keys of conditions.
const (
	keyResourceTag = "aws:ResourceTag/" // followed by a tag's key: the resource has it
	keyRequestTag  = "aws:RequestTag/"  // followed by a tag's key: the request gives it
)

// policy merges grants into one document; "" when they grant nothing.
func (m *model) policy(grants []grant) (string, error) {
	var all grant
	for _, g := range grants {
		all.free, all.owned = append(all.free, g.free...), append(all.owned, g.owned...)
		all.made, all.more = append(all.made, g.made...), append(all.more, g.more...)
	}
	add := func(actions []string, s statement) {
		if len(actions) > 0 {
			s.Action, s.Effect, s.Resource = set(actions), "Allow", one("*")
			all.more = append(all.more, s)
		}
	}
	add(all.free, statement{})
	add(all.owned, m.whereOwned(statement{}))
	add(all.made, m.whereMade(statement{}))
	if slices.Contains(all.made, "ec2:CreateSecurityGroup") { // which needs the VPC as well
		all.more = append(all.more, allow(one("ec2:CreateSecurityGroup"), one(m.ec2ARN("vpc"))))
	}
	if len(all.more) == 0 {
		return "", nil
	}
	statements := make([]any, len(all.more))
	for i, s := range all.more {
		statements[i] = s
	}
	return render(statements)
}

// arn returns the name of something in the account's partition.
func (m *model) arn(service, rest string) string {
	return "arn:" + m.account.Partition + ":" + service + ":" + rest
}

// ec2ARN stands for all things of a kind.
func (m *model) ec2ARN(kind string) string { return m.arn("ec2", "*:*:"+kind+"/*") }

// tagging lets a component tag the objects that it makes by some actions, and change the tags of
// the cluster's objects, but never their owner.
func (m *model) tagging(resources texts, actions ...string) []statement {
	return []statement{
		allow(one("ec2:CreateTags"), resources).
			under("StringEquals", keyRequestTag+clusterTag, one(m.name)).
			under("StringEquals", "ec2:CreateAction", list(actions...)),
		allow(list("ec2:CreateTags", "ec2:DeleteTags"), resources).
			under("Null", keyRequestTag+clusterTag, one("true")).
			under("StringEquals", keyResourceTag+clusterTag, one(m.name)),
	}
}
