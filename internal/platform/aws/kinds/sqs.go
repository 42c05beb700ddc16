package kinds

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awsname"
)

// Queue is an SQS queue.
type Queue struct {
	Name string `res:"forbid" tf:"name"` // at most 80 characters
	// MessageRetentionSeconds is how long a message is kept until it is received.
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
		return fault.IgnoreGone(c.SQS.Call(ctx, "DeleteQueue", awsapi.Fields{"QueueUrl": q.URL}, nil))
	},
}

func listQueues(ctx context.Context, c *Client, s resource.Scope) ([]*Queue, error) {
	var urls []string
	if s.All {
		var err error
		urls, err = awsapi.List[string](ctx, c.SQS, "ListQueues", "QueueUrls", awsapi.Fields{"QueueNamePrefix": awsname.QueuePrefix(s.Cluster), "MaxResults": queuePage})
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
		return filterIAM(s, q, "the queue", q.Name, q.ARN, q.Tags)
	})
}

// queueURL returns a queue's URL, which never changes, or "" if the queue does not exist.
func queueURL(ctx context.Context, c *Client, name string) (string, error) {
	if url, ok := past.Recall[string](c.Past, queueKey(c, name)); ok {
		return url, nil
	}
	var out struct{ QueueUrl string } //nolint:revive // as SQS spells it
	if err := c.SQS.Call(ctx, "GetQueueUrl", awsapi.Fields{"QueueName": name}, &out); err != nil {
		return "", fault.IgnoreGone(err)
	}
	past.Remember(c.Past, queueKey(c, name), out.QueueUrl)
	return out.QueueUrl, nil
}

func queueKey(c *Client, name string) string { return "queue/" + queueARN(c, name) }

// queuePage is the maximum number of queues in one response (API reference, ListQueues).
const queuePage = 1000

// Attributes of a queue that kops sets.
const (
	queueRetention = "MessageRetentionPeriod"
	queuePolicy    = "Policy"
)

func getQueue(ctx context.Context, c *Client, url string) (*Queue, error) {
	q := &Queue{Name: lastSegment(url), URL: url, ID: url}
	var out struct{ Attributes map[string]string }
	err := c.SQS.Call(ctx, "GetQueueAttributes", awsapi.Fields{"QueueUrl": url, "AttributeNames": []string{"QueueArn", queueRetention, queuePolicy}}, &out)
	if err != nil {
		return nil, fmt.Errorf("describe the queue %s: %w", q.Name, err)
	}
	q.ARN, q.Policy = out.Attributes["QueueArn"], out.Attributes[queuePolicy]
	q.MessageRetentionSeconds, err = strconv.Atoi(out.Attributes[queueRetention])
	if err != nil {
		return nil, fmt.Errorf("describe the queue %s: %w", q.Name, err)
	}
	var tagged struct{ Tags map[string]string }
	if err := c.SQS.Call(ctx, "ListQueueTags", awsapi.Fields{"QueueUrl": url}, &tagged); err != nil {
		return nil, fmt.Errorf("list the tags of the queue %s: %w", q.Name, err)
	}
	q.Tags = tagged.Tags
	maps.DeleteFunc(q.Tags, func(k, _ string) bool { return isReserved(k) })
	return q, nil
}

func (q *Queue) attributes() map[string]string {
	return map[string]string{
		queueRetention: strconv.Itoa(q.MessageRetentionSeconds),
		queuePolicy:    q.Policy, // empty removes the policy
	}
}

func createQueue(ctx context.Context, c *Client, q *Queue) error {
	attributes := q.attributes()
	maps.DeleteFunc(attributes, func(_, v string) bool { return v == "" })
	var out struct{ QueueUrl string } //nolint:revive // as SQS spells it
	if err := c.SQS.Call(ctx, "CreateQueue", awsapi.Fields{"QueueName": q.Name, "Attributes": attributes, "tags": q.Tags}, &out); err != nil {
		return err
	}
	q.URL, q.ID = out.QueueUrl, out.QueueUrl
	past.Remember(c.Past, queueKey(c, q.Name), q.URL)
	q.ARN = queueARN(c, q.Name) // the response omits it, but it follows from the name
	return nil
}

func queueARN(c *Client, name string) string {
	return fmt.Sprintf("arn:%s:sqs:%s:%s:%s", c.Partition, c.Region, c.AccountID, name)
}

func setQueueAttributes(ctx context.Context, c *Client, have, want *Queue) error {
	return c.SQS.Call(ctx, "SetQueueAttributes", awsapi.Fields{"QueueUrl": have.URL, "Attributes": want.attributes()}, nil)
}

func setQueueTags(ctx context.Context, c *Client, have, want *Queue) error {
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			return c.SQS.Call(ctx, "TagQueue", awsapi.Fields{"QueueUrl": have.URL, "Tags": set}, nil)
		},
		func(drop []string) error {
			return c.SQS.Call(ctx, "UntagQueue", awsapi.Fields{"QueueUrl": have.URL, "TagKeys": drop}, nil)
		})
}
