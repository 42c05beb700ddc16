package model

import (
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/fill"
)

// hasQueue reports whether the node termination handler learns from a
// queue which machines will be terminated.
func (m *model) hasQueue() bool { return spec.HasTerminationQueue(m.aws) }

// queueName returns the name of the queue.
func (m *model) queueName() string {
	return awsname.TerminationQueue(m.name)
}

func (m *model) queueARN() string { return m.arn("sqs", m.regionalName(m.queueName())) }

// regionalName returns the region, account and name part of an ARN.
func (m *model) regionalName(name string) string {
	return m.facts.Region + ":" + m.account.AccountID + ":" + name
}

// queuePolicy allows the cluster's own event rules, but no other account's, to write to the queue:
// the handler drains the machines in the events.
func (m *model) queuePolicy() (string, error) {
	s := allowStatement(oneText("sqs:SendMessage"), oneText(m.queueARN()))
	s.Principal = map[string]texts{"Service": textList("events.amazonaws.com")}
	return renderPolicy([]any{s.
		withCondition("StringEquals", "aws:SourceAccount", oneText(m.account.AccountID)).
		withCondition("ArnLike", "aws:SourceArn", oneText(m.arn("events", m.regionalName("rule/"+awsname.EventRulePrefix(m.name)+"*"))))})
}

// event is a type of event that is sent to the queue.
type event struct{ name, pattern string }

// events returns the events that the handler processes (its documentation, "Queue Processor").
// Their patterns have the same whitespace as in kOps, which compares them as text.
func (m *model) events() []event {
	list := []event{
		{"ASGLifecycle", `{"source":["aws.autoscaling"],"detail-type":["EC2 Instance-terminate Lifecycle Action"]}`},
		{"SpotInterruption", `{"source": ["aws.ec2"],"detail-type": ["EC2 Spot Instance Interruption Warning"]}`},
		{"InstanceStateChange", `{"source": ["aws.ec2"],"detail-type": ["EC2 Instance State-change Notification"]}`},
		{"InstanceScheduledChange", `{"source": ["aws.health"],"detail-type": ["AWS Health Event"],` +
			`"detail": {"service": ["EC2"],"eventTypeCategory": ["scheduledChange"]}}`},
	}
	if fill.Or(m.aws.NodeTerminationHandler.EnableRebalanceDraining, false) {
		list = append(list, event{"RebalanceRecommendation",
			`{"source": ["aws.ec2"],"detail-type": ["EC2 Instance Rebalance Recommendation"]}`})
	}
	return list
}

// terminationQueue returns the queue, the rules that send events to it, and the hooks that delay a
// machine's termination until it is drained.
func (m *model) terminationQueue() ([]resource.Node, error) {
	if !m.hasQueue() {
		return nil, nil
	}
	name := m.queueName()
	policy, err := m.queuePolicy()
	if err != nil {
		return nil, err
	}
	queue := kinds.Queues.New(name, kinds.Queue{Name: name, MessageRetentionSeconds: 300, Policy: policy, Tags: m.tags(name)})
	nodes := []resource.Node{queue}
	for _, e := range m.events() {
		rule := awsname.EventRulePrefix(m.name) + e.name
		n := kinds.EventRules.New(rule, kinds.EventRule{Name: rule, EventPattern: e.pattern, Tags: m.tags(rule)})
		nodes = append(nodes, n, kinds.EventTargets.New(rule+"-Target", kinds.EventTarget{Rule: n.Out("id"), ARN: queue.Out("arn")}))
	}
	for _, g := range m.scaledGroups() {
		hook := g.Name + "-NTHLifecycleHook"
		nodes = append(nodes, kinds.LifecycleHooks.New(hook, kinds.LifecycleHook{
			Name: hook, InstanceGroup: g.Name, Group: kinds.AutoScalingGroups.Out(m.groupName(g), "id"), DefaultResult: "CONTINUE",
			HeartbeatTimeout: 300, Transition: "autoscaling:EC2_INSTANCE_TERMINATING"}))
	}
	return nodes, nil
}
