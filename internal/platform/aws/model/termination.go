package model

import (
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/platform/aws/kinds"
)

// hasQueue reports whether the node termination handler reads from a queue which machines will
// end.
func (m *model) hasQueue() bool {
	return m.hasTerminationHandler() && or(m.aws.NodeTerminationHandler.EnableSQSTerminationDraining, true)
}

// hasTerminationHandler reports whether the cluster runs the node termination handler.
func (m *model) hasTerminationHandler() bool {
	h := m.aws.NodeTerminationHandler
	return h != nil && or(h.Enabled, true)
}

// queueName is the name of the queue.
func (m *model) queueName() string {
	return awsname.TerminationQueue(m.name)
}

func (m *model) queueARN() string { return m.arn("sqs", m.here(m.queueName())) }

// here names something of the cluster's region and account.
func (m *model) here(name string) string {
	return m.facts.Region + ":" + m.account.AccountID + ":" + name
}

// queuePolicy lets the cluster's own event rules write to the queue, and none of
// other accounts: the handler drains the machines that events name.
func (m *model) queuePolicy() (string, error) {
	s := allow(one("sqs:SendMessage"), one(m.queueARN()))
	s.Principal = map[string]texts{"Service": list("events.amazonaws.com")}
	return render([]any{s.
		under("StringEquals", "aws:SourceAccount", one(m.account.AccountID)).
		under("ArnLike", "aws:SourceArn", one(m.arn("events", m.here("rule/"+awsname.EventRulePrefix(m.name)+"*"))))})
}

// event is one sort of event that goes to the queue.
type event struct{ name, pattern string }

// events are those that the handler acts on (its documentation, "Queue Processor"). Their
// patterns have the blanks that kOps writes, which compares them as texts.
func (m *model) events() []event {
	list := []event{
		{"ASGLifecycle", `{"source":["aws.autoscaling"],"detail-type":["EC2 Instance-terminate Lifecycle Action"]}`},
		{"SpotInterruption", `{"source": ["aws.ec2"],"detail-type": ["EC2 Spot Instance Interruption Warning"]}`},
		{"InstanceStateChange", `{"source": ["aws.ec2"],"detail-type": ["EC2 Instance State-change Notification"]}`},
		{"InstanceScheduledChange", `{"source": ["aws.health"],"detail-type": ["AWS Health Event"],` +
			`"detail": {"service": ["EC2"],"eventTypeCategory": ["scheduledChange"]}}`},
	}
	if or(m.aws.NodeTerminationHandler.EnableRebalanceDraining, false) {
		list = append(list, event{"RebalanceRecommendation",
			`{"source": ["aws.ec2"],"detail-type": ["EC2 Instance Rebalance Recommendation"]}`})
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
	for _, g := range m.scaled() {
		hook := g.Name + "-NTHLifecycleHook"
		nodes = append(nodes, kinds.LifecycleHooks.New(hook, kinds.LifecycleHook{
			Name: hook, InstanceGroup: g.Name, Group: kinds.AutoScalingGroups.Out(m.groupName(g), "id"), DefaultResult: "CONTINUE",
			HeartbeatTimeout: 300, Transition: "autoscaling:EC2_INSTANCE_TERMINATING"}))
	}
	return nodes, nil
}
