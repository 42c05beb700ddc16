package kinds

import (
	"strings"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

const testQueuePolicy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"arn:aws:sqs:us-east-1:123456789012:q"}]}`

func testQueue(name string) Queue {
	return Queue{Name: name, MessageRetentionSeconds: 300, Policy: testQueuePolicy, Tags: OwnedTags(testCluster, name)}
}

func testRule(name string) EventRule {
	return EventRule{Name: name, EventPattern: `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`, Tags: OwnedTags(testCluster, name)}
}

func liveQueue(t *testing.T, c *Client) {
	want := testQueue("k-example-com-nth")
	want.Tags = tagged(want.Name)
	kindtest.Run(t, &Queues, c, kindtest.Life[Queue]{
		Cluster: testCluster,
		Want:    want,
		Changes: []kindtest.Change[Queue]{
			{Name: "retention", Do: func(q *Queue) { q.MessageRetentionSeconds = 600 }},
			{Name: "policy", Do: func(q *Queue) {
				q.Policy = strings.ReplaceAll(testQueuePolicy, `"events.amazonaws.com",`, "")
			}},
			{Name: "tags", Do: func(q *Queue) { retagged(q.Tags) }},
		},
	})
}

func liveEventRule(t *testing.T, c *Client) {
	want := testRule(testCluster + "-SpotInterruption")
	want.Tags = tagged(want.Name)
	kindtest.Run(t, &EventRules, c, kindtest.Life[EventRule]{
		Cluster: testCluster,
		Want:    want,
		Changes: []kindtest.Change[EventRule]{
			{Name: "pattern", Do: func(r *EventRule) { r.EventPattern = `{"source": ["aws.health"]}` }},
			{Name: "disabled", Do: func(r *EventRule) { r.Disabled = true }},
			{Name: "enabled", Do: func(r *EventRule) { r.Disabled = false }},
			{Name: "tags", Do: func(r *EventRule) { retagged(r.Tags) }},
		},
	})
}

func liveEventTarget(t *testing.T, c *Client) {
	rule := build(t, c, &EventRules, testRule(testCluster+"-ASGLifecycle"))
	other := build(t, c, &EventRules, testRule(testCluster+"-InstanceStateChange"))
	queue := build(t, c, &Queues, testQueue("k-example-com-target"))
	kindtest.Run(t, &EventTargets, c, kindtest.Life[EventTarget]{
		Cluster: testCluster, Want: EventTarget{Rule: lit(rule.ID), ARN: lit(queue.ARN)}, OnlyNamed: true,
	})
	t.Run("a rule goes with its targets", func(t *testing.T) {
		build(t, c, &EventTargets, EventTarget{Rule: lit(other.ID), ARN: lit(queue.ARN)})
		if err := deleteEventRule(t.Context(), c, other); err != nil {
			t.Fatal(err)
		}
		for _, r := range observed(t, c, &EventRules, resource.Scope{Cluster: testCluster}) {
			if r.Name == other.Name {
				t.Error("it is still there")
			}
		}
	})
}

func TestTargetsAreKeyedByTheNamesOfQueueAndRule(t *testing.T) {
	queue := Queues.New("k-example-com-nth", Queue{Name: "k-example-com-nth"})
	rule := EventRules.New(testCluster+"-ASGLifecycle", EventRule{Name: testCluster + "-ASGLifecycle"})
	early := EventTarget{Rule: rule.Out("id"), ARN: queue.Out("arn")}
	late := EventTarget{Rule: lit(testCluster + "-ASGLifecycle"), ARN: lit("arn:aws:sqs:us-east-1:123456789012:k-example-com-nth")}
	if a, b := EventTargets.Key(&early), EventTargets.Key(&late); a != b {
		t.Errorf("%q before and %q after they are known", a, b)
	}
}
