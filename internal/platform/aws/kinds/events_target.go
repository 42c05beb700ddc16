package kinds

import (
	"context"
	"fmt"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awsname"
)

// EventTarget sends the events of a rule to a queue.
type EventTarget struct {
	// Rule is the "id" of the rule's node: its name.
	Rule resource.Value `res:"replace" tf:"rule"`
	// ARN is the ARN of the queue, whose node must have the queue's name.
	ARN resource.Value `res:"replace" tf:"arn"`
}

// EventTargets is the kind of EventTarget.
var EventTargets = resource.Kind[EventTarget, *Client]{
	Name:   "aws_cloudwatch_event_target",
	API:    apiEvents,
	Tasks:  []string{"EventBridgeTarget"},
	Key:    func(t *EventTarget) string { return queueOf(t.ARN) + "/" + nameOf(t.Rule) },
	List:   listTargets,
	Create: putTarget,
	Delete: func(ctx context.Context, c *Client, t *EventTarget) error {
		return removeTargets(ctx, c, t.Rule.Text(), func(got awsTarget) bool { return got.Arn == t.ARN.Text() })
	},
}

// awsTarget is a target in EventBridge's format.
type awsTarget struct {
	ID  string `json:"Id"`
	Arn string
}

// targetID is the identifier of the only target that kops sets on a rule.
const targetID = "1"

// queueOf returns the name of the queue in an ARN, whether the ARN is known or not.
func queueOf(arn resource.Value) string {
	name := nameOf(arn)
	return name[strings.LastIndex(name, ":")+1:]
}

// listTargets lists the rules of each queue, in one request per queue; listing the targets of each
// rule would take one per rule. For a deletion it returns none: they are deleted with their rules.
func listTargets(ctx context.Context, c *Client, s resource.Scope) ([]*EventTarget, error) {
	if s.All {
		return nil, nil
	}
	return observe.EachOf(ctx, keyParts(s.Names, "/"), func(ctx context.Context, queue string) ([]*EventTarget, error) {
		arn := queueARN(c, queue)
		names, err := awsapi.List[string](ctx, c.Events, "ListRuleNamesByTarget", "RuleNames", awsapi.Fields{"TargetArn": arn})
		if err != nil {
			return nil, fault.IgnoreGone(fmt.Errorf("list the event rules of the queue %s: %w", queue, err))
		}
		var out []*EventTarget
		for _, name := range names {
			if strings.HasPrefix(name, awsname.EventRulePrefix(s.Cluster)) { // other rules may use the queue, too
				out = append(out, &EventTarget{Rule: resource.Lit(name), ARN: resource.Lit(arn)})
			}
		}
		return out, nil
	})
}

func putTarget(ctx context.Context, c *Client, t *EventTarget) error {
	rule := t.Rule.Text()
	var out struct {
		FailedEntries []struct{ ErrorCode, ErrorMessage string }
	}
	err := c.Events.Call(ctx, "PutTargets", awsapi.Fields{"Rule": rule, "Targets": []awsTarget{{ID: targetID, Arn: t.ARN.Text()}}}, &out)
	if err != nil {
		return err
	}
	for _, f := range out.FailedEntries {
		return fault.New(fault.Permanent, "set the target of the event rule %s: %s: %s", rule, f.ErrorCode, f.ErrorMessage)
	}
	return nil
}

// removeTargets removes the rule's targets for which drop returns true.
func removeTargets(ctx context.Context, c *Client, rule string, drop func(awsTarget) bool) error {
	targets, err := awsapi.List[awsTarget](ctx, c.Events, "ListTargetsByRule", "Targets", awsapi.Fields{"Rule": rule})
	if err != nil {
		return fault.IgnoreGone(err)
	}
	var ids []string
	for _, t := range targets {
		if drop(t) {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return fault.IgnoreGone(c.Events.Call(ctx, "RemoveTargets", awsapi.Fields{"Rule": rule, "Ids": ids}, nil))
}
