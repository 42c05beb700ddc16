package kinds

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsname"
)

// EventRule picks events of the account. Its node must be named by the rule's
// name: targets are keyed by it.
type EventRule struct {
	Name string `res:"forbid" tf:"name"`
	// EventPattern is a JSON document.
	EventPattern string `res:",json" tf:"event_pattern,file"`
	Tags         Tags   `tf:"tags"`
	// Disabled is what somebody else can make of a rule, which then picks nothing.
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

func listEventRules(ctx context.Context, c *Client, s resource.Scope) ([]*EventRule, error) {
	var found []eventtypes.Rule
	in := &eventbridge.ListRulesInput{NamePrefix: new(awsname.EventRulePrefix(s.Cluster))}
	for {
		out, err := c.Events.ListRules(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list event rules: %w", err)
		}
		found = append(found, out.Rules...)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return observe.Each(ctx, found, func(ctx context.Context, r eventtypes.Rule) (*EventRule, error) {
		tags, err := ruleTags(ctx, c, *r.Arn)
		if err != nil {
			return nil, fault.IgnoreGone(fmt.Errorf("list the tags of the event rule %s: %w", *r.Name, err))
		}
		rule := &EventRule{Name: *r.Name, EventPattern: deref(r.EventPattern), Tags: tags, ARN: *r.Arn, ID: *r.Name,
			Disabled: r.State == eventtypes.RuleStateDisabled}
		return ownIAM(s, rule, "the event rule", *r.Name, *r.Arn, tags)
	})
}

// ruleTags returns a rule's tags, which AWS tells of one rule at a time.
func ruleTags(ctx context.Context, c *Client, arn string) (map[string]string, error) {
	if tags, ok := past.Recall[map[string]string](c.Past, arn); ok {
		return tags, nil
	}
	out, err := c.Events.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: &arn})
	if err != nil {
		return nil, err
	}
	tags := tagsOf(out.Tags, func(t eventtypes.Tag) (*string, *string) { return t.Key, t.Value })
	past.Remember(c.Past, arn, tags)
	return tags, nil
}

func createEventRule(ctx context.Context, c *Client, r *EventRule) error {
	out, err := c.Events.PutRule(ctx, &eventbridge.PutRuleInput{
		Name: &r.Name, EventPattern: &r.EventPattern, State: r.state(), Tags: eventTags(r.Tags)})
	if err != nil {
		return err
	}
	r.ARN, r.ID = *out.RuleArn, r.Name
	past.Remember(c.Past, r.ARN, r.Tags)
	return nil
}

func setRule(ctx context.Context, c *Client, have, want *EventRule) error {
	_, err := c.Events.PutRule(ctx, &eventbridge.PutRuleInput{
		Name: &have.Name, EventPattern: &want.EventPattern, State: want.state()})
	return err
}

func (r *EventRule) state() eventtypes.RuleState {
	if r.Disabled {
		return eventtypes.RuleStateDisabled
	}
	return eventtypes.RuleStateEnabled
}

func setRuleTags(ctx context.Context, c *Client, have, want *EventRule) error {
	past.Forget(c.Past, have.ARN)
	defer past.Forget(c.Past, have.ARN)
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			_, err := c.Events.TagResource(ctx, &eventbridge.TagResourceInput{ResourceARN: &have.ARN, Tags: eventTags(set)})
			return err
		},
		func(drop []string) error {
			_, err := c.Events.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: &have.ARN, TagKeys: drop})
			return err
		})
}

// deleteEventRule removes the rule's targets first, without which EventBridge refuses.
func deleteEventRule(ctx context.Context, c *Client, r *EventRule) error {
	past.Forget(c.Past, r.ARN)
	defer past.Forget(c.Past, r.ARN)
	if err := removeTargets(ctx, c, r.Name, func(eventtypes.Target) bool { return true }); err != nil {
		return err
	}
	_, err := c.Events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: &r.Name})
	return fault.IgnoreGone(err)
}

func eventTags(tags map[string]string) []eventtypes.Tag {
	return pairs(tags, func(k, v *string) eventtypes.Tag { return eventtypes.Tag{Key: k, Value: v} })
}
