package model

import (
	"kops.local/kops/internal/clouds/aws/kinds"
	"kops.local/kops/internal/names"
	"kops.local/kops/internal/resource"
)

// hasQueue reports whether the node termination handler is told by a queue
// which machines will go.
func (m *model) hasQueue() bool {
	h := m.aws.NodeTerminationHandler
	return h != nil && or(h.Enabled, true) && or(h.EnableSQSTerminationDraining, true)
}

// queueName is the name of the queue.
func (m *model) queueName() string {
	return names.AWSTerminationQueue(m.name)
}

// event is one sort of event that goes to the queue.
type event struct{ name, pattern string }

// events are those that the handler acts on (its documentation, "Queue Processor").
func (m *model) events() []event {
	list := []event{
		{"ASGLifecycle", `{"source":["aws.autoscaling"],"detail-type":["EC2 Instance-terminate Lifecycle Action"]}`},
		{"SpotInterruption", `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`},
		{"InstanceStateChange", `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"]}`},
		{"InstanceScheduledChange", `{"source":["aws.health"],"detail-type":["AWS Health Event"],` +
			`"detail":{"service":["EC2"],"eventTypeCategory":["scheduledChange"]}}`},
	}
	if or(m.aws.NodeTerminationHandler.EnableRebalanceDraining, false) {
		list = append(list, event{"RebalanceRecommendation",
			`{"source":["aws.ec2"],"detail-type":["EC2 Instance Rebalance Recommendation"]}`})
	}
	return list
}

// terminationQueue is the queue, what puts events into it, and the hooks that
// make a machine wait until it has been drained.
func (m *model) terminationQueue() ([]resource.Node, error) {
	if !m.hasQueue() {
		return nil, nil
	}
	name := m.queueName()
	policy, err := render([]any{statement{
		Action: one("sqs:SendMessage"), Effect: "Allow",
		Principal: map[string]texts{"Service": list("events.amazonaws.com", "sqs.amazonaws.com")},
		Resource:  one(m.arn("sqs", m.facts.Region+":"+m.facts.AccountID+":"+name)),
	}})
	if err != nil {
		return nil, err
	}
	queue := kinds.NewQueue(name, kinds.Queue{Name: name, MessageRetentionSeconds: 300, Policy: policy, Tags: m.tags(name)})
	nodes := []resource.Node{queue}
	for _, e := range m.events() {
		rule := names.AWSEventRulePrefix(m.name) + e.name
		n := kinds.NewEventRule(rule, kinds.EventRule{Name: rule, EventPattern: e.pattern, Tags: m.tags(rule)})
		nodes = append(nodes, n, kinds.NewEventTarget(rule+"-Target", kinds.EventTarget{Rule: n.Out("id"), ARN: queue.Out("arn")}))
	}
	for _, g := range m.scaled() {
		hook := g.Name + "-NTHLifecycleHook"
		nodes = append(nodes, kinds.NewLifecycleHook(hook, kinds.LifecycleHook{
			Name: hook, Group: out("aws_autoscaling_group", m.groupName(g), "id"), DefaultResult: "CONTINUE",
			HeartbeatTimeout: 300, Transition: "autoscaling:EC2_INSTANCE_TERMINATING"}))
	}
	return nodes, nil
}
