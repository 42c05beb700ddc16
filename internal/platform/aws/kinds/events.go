package kinds

import (
	"context"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awsname"
)

// EventRule selects events of the account. Its node must have the rule's
// name, because targets are keyed by it.
type EventRule struct {
	Name string `res:"forbid" tf:"name"`
	// EventPattern is a JSON document.
	EventPattern string `res:",json" tf:"event_pattern,file"`
	Tags         Tags   `tf:"tags"`
	// Disabled is set by a user outside of kops; a disabled rule selects no events.
	Disabled bool

	ARN string `res:"out,id" out:"arn"`
	ID  string `res:"out,id" out:"id"` // the name
}

// EventRules is the kind of EventRule.
var EventRules = resource.Kind[EventRule, *Client]{
	Name:   "aws_cloudwatch_event_rule",
	API:    apiEvents,
	Tasks:  []string{"EventBridgeRule"},
	Key:    func(r *EventRule) string { return r.Name },
	List:   listEventRules,
	Create: createEventRule,
	Update: []resource.Setter[EventRule, *Client]{
		{Fields: []string{"EventPattern", "Disabled"}, Set: setRule},
		{Fields: []string{"Tags"}, Set: setRuleTags},
	},
	Delete: deleteEventRule,
}

// States of a rule.
const (
	ruleEnabled  = "ENABLED"
	ruleDisabled = "DISABLED"
)

// awsRule is a rule as EventBridge describes it.
type awsRule struct{ Name, Arn, EventPattern, State string }

// eventTag is a tag in EventBridge's format.
type eventTag struct{ Key, Value *string }

func listEventRules(ctx context.Context, c *Client, s resource.Scope) ([]*EventRule, error) {
	found, err := awsapi.List[awsRule](ctx, c.Events, "ListRules", "Rules", awsapi.Fields{"NamePrefix": awsname.EventRulePrefix(s.Cluster)})
	if err != nil {
		return nil, fmt.Errorf("list event rules: %w", err)
	}
	return observe.Each(ctx, found, func(ctx context.Context, r awsRule) (*EventRule, error) {
		tags, err := ruleTags(ctx, c, r.Arn)
		if err != nil {
			return nil, fault.IgnoreGone(fmt.Errorf("list the tags of the event rule %s: %w", r.Name, err))
		}
		rule := &EventRule{Name: r.Name, EventPattern: r.EventPattern, Tags: tags, ARN: r.Arn, ID: r.Name, Disabled: r.State == ruleDisabled}
		return filterIAM(s, rule, "the event rule", r.Name, r.Arn, tags)
	})
}

// ruleTags returns a rule's tags, which AWS returns for one rule per request.
func ruleTags(ctx context.Context, c *Client, arn string) (map[string]string, error) {
	if tags, ok := past.Recall[map[string]string](c.Past, arn); ok {
		return tags, nil
	}
	var out struct{ Tags []eventTag }
	if err := c.Events.Call(ctx, "ListTagsForResource", awsapi.Fields{"ResourceARN": arn}, &out); err != nil {
		return nil, err
	}
	tags := tagsOf(out.Tags, func(t eventTag) (*string, *string) { return t.Key, t.Value })
	past.Remember(c.Past, arn, tags)
	return tags, nil
}

func createEventRule(ctx context.Context, c *Client, r *EventRule) error {
	var out struct{ RuleArn string }
	err := c.Events.Call(ctx, "PutRule", awsapi.Fields{"Name": r.Name, "EventPattern": r.EventPattern, "State": r.state(), "Tags": eventTags(r.Tags)}, &out)
	if err != nil {
		return err
	}
	r.ARN, r.ID = out.RuleArn, r.Name
	past.Remember(c.Past, r.ARN, r.Tags)
	return nil
}

func setRule(ctx context.Context, c *Client, have, want *EventRule) error {
	return c.Events.Call(ctx, "PutRule", awsapi.Fields{"Name": have.Name, "EventPattern": want.EventPattern, "State": want.state()}, nil)
}

func (r *EventRule) state() string {
	if r.Disabled {
		return ruleDisabled
	}
	return ruleEnabled
}

func setRuleTags(ctx context.Context, c *Client, have, want *EventRule) error {
	past.Forget(c.Past, have.ARN)
	defer past.Forget(c.Past, have.ARN)
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			return c.Events.Call(ctx, "TagResource", awsapi.Fields{"ResourceARN": have.ARN, "Tags": eventTags(set)}, nil)
		},
		func(drop []string) error {
			return c.Events.Call(ctx, "UntagResource", awsapi.Fields{"ResourceARN": have.ARN, "TagKeys": drop}, nil)
		})
}

// deleteEventRule removes the rule's targets first, because EventBridge refuses to delete a rule
// that has targets.
func deleteEventRule(ctx context.Context, c *Client, r *EventRule) error {
	past.Forget(c.Past, r.ARN)
	defer past.Forget(c.Past, r.ARN)
	if err := removeTargets(ctx, c, r.Name, func(awsTarget) bool { return true }); err != nil {
		return err
	}
	return fault.IgnoreGone(c.Events.Call(ctx, "DeleteRule", awsapi.Fields{"Name": r.Name}, nil))
}

func eventTags(tags map[string]string) []eventTag {
	return pairs(tags, func(k, v *string) eventTag { return eventTag{Key: k, Value: v} })
}
