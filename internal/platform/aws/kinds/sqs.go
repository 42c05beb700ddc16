package kinds

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsname"
)

// Queue is an SQS queue.
type Queue struct {
	Name string `res:"forbid" tf:"name"` // at most 80 characters
	// MessageRetentionSeconds is how long a message waits for a reader.
	MessageRetentionSeconds int `tf:"message_retention_seconds"`
	// Policy is a policy document in JSON.
	Policy string `res:",json" tf:"policy,file"`
	Tags   Tags   `tf:"tags"`

	ARN string `res:"out,id" out:"arn"`
	URL string `res:"out,id" out:"url"`
	ID  string `res:"out,id" out:"id"` // the URL
}

// Queues is the kind of Queue.
var Queues = resource.Kind[Queue, *Client]{
	Name:   "aws_sqs_queue",
	API:    apiSQS,
	Tasks:  []string{"SQS"},
	Key:    func(q *Queue) string { return q.Name },
	List:   listQueues,
	Create: createQueue,
	Update: []resource.Setter[Queue, *Client]{
		{Fields: []string{"MessageRetentionSeconds", "Policy"}, Set: setQueueAttributes},
		{Fields: []string{"Tags"}, Set: setQueueTags},
	},
	Delete: func(ctx context.Context, c *Client, q *Queue) error {
		_, err := c.SQS.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &q.URL})
		return fault.IgnoreGone(err)
	},
}

func listQueues(ctx context.Context, c *Client, s resource.Scope) ([]*Queue, error) {
	var urls []string
	if s.All {
		prefix := awsname.QueuePrefix(s.Cluster)
		var err error
		urls, err = pages(ctx, sqs.NewListQueuesPaginator(c.SQS, &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: new(queuePage)}),
			func(p *sqs.ListQueuesOutput) []string { return p.QueueUrls })
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
	}
	for _, name := range s.Names {
		url, err := queueURL(ctx, c, name)
		if err != nil {
			return nil, fmt.Errorf("find the queue %s: %w", name, err)
		}
		if url != "" {
			urls = append(urls, url)
		}
	}
	return observe.Each(ctx, distinct(urls), func(ctx context.Context, url string) (*Queue, error) {
		q, err := getQueue(ctx, c, url)
		if err != nil {
			return nil, fault.IgnoreGone(err)
		}
		return ownIAM(s, q, "the queue", q.Name, q.ARN, q.Tags)
	})
}

// queueURL returns where a queue is asked, which never changes, or "" if there is none.
func queueURL(ctx context.Context, c *Client, name string) (string, error) {
	if url, ok := past.Recall[string](c.Past, queueKey(c, name)); ok {
		return url, nil
	}
	out, err := c.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", fault.IgnoreGone(err)
	}
	past.Remember(c.Past, queueKey(c, name), *out.QueueUrl)
	return *out.QueueUrl, nil
}

func queueKey(c *Client, name string) string { return "queue/" + queueARN(c, name) }

// queuePage is the most queues in one answer (API reference, ListQueues).
const queuePage int32 = 1000

func getQueue(ctx context.Context, c *Client, url string) (*Queue, error) {
	q := &Queue{Name: lastSegment(url), URL: url, ID: url}
	out, err := c.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{
		sqstypes.QueueAttributeNameQueueArn, sqstypes.QueueAttributeNameMessageRetentionPeriod, sqstypes.QueueAttributeNamePolicy}})
	if err != nil {
		return nil, fmt.Errorf("describe the queue %s: %w", q.Name, err)
	}
	q.ARN = out.Attributes[string(sqstypes.QueueAttributeNameQueueArn)]
	q.Policy = out.Attributes[string(sqstypes.QueueAttributeNamePolicy)]
	q.MessageRetentionSeconds, err = strconv.Atoi(out.Attributes[string(sqstypes.QueueAttributeNameMessageRetentionPeriod)])
	if err != nil {
		return nil, fmt.Errorf("describe the queue %s: %w", q.Name, err)
	}
	tags, err := c.SQS.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil {
		return nil, fmt.Errorf("list the tags of the queue %s: %w", q.Name, err)
	}
	q.Tags = maps.Clone(tags.Tags)
	maps.DeleteFunc(q.Tags, func(k, _ string) bool { return isReserved(k) })
	return q, nil
}

func (q *Queue) attributes() map[string]string {
	return map[string]string{
		string(sqstypes.QueueAttributeNameMessageRetentionPeriod): strconv.Itoa(q.MessageRetentionSeconds),
		string(sqstypes.QueueAttributeNamePolicy):                 q.Policy, // empty takes a policy away
	}
}

func createQueue(ctx context.Context, c *Client, q *Queue) error {
	attributes := q.attributes()
	maps.DeleteFunc(attributes, func(_, v string) bool { return v == "" })
	out, err := c.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &q.Name, Attributes: attributes, Tags: q.Tags})
	if err != nil {
		return err
	}
	q.URL, q.ID = *out.QueueUrl, *out.QueueUrl
	past.Remember(c.Past, queueKey(c, q.Name), q.URL)
	q.ARN = queueARN(c, q.Name) // not told, but it follows from the name
	return nil
}

func queueARN(c *Client, name string) string {
	return fmt.Sprintf("arn:%s:sqs:%s:%s:%s", c.Partition, c.Region, c.AccountID, name)
}

func setQueueAttributes(ctx context.Context, c *Client, have, want *Queue) error {
	_, err := c.SQS.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &have.URL, Attributes: want.attributes()})
	return err
}

func setQueueTags(ctx context.Context, c *Client, have, want *Queue) error {
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			_, err := c.SQS.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: &have.URL, Tags: set})
			return err
		},
		func(drop []string) error {
			_, err := c.SQS.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: &have.URL, TagKeys: drop})
			return err
		})
}
