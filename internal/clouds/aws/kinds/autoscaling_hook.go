package kinds

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"kops.local/kops/internal/resource"
)

// LifecycleHook holds an instance of a group while it comes or goes.
type LifecycleHook struct {
	Name string `res:"forbid" tf:"name"`
	// Group is the "id" of the group's node: its name.
	Group resource.Value `res:"replace" tf:"autoscaling_group_name"`
	// DefaultResult is "CONTINUE" or "ABANDON".
	DefaultResult string `tf:"default_result"`
	// HeartbeatTimeout is in seconds.
	HeartbeatTimeout int `tf:"heartbeat_timeout"`
	// Transition is for example "autoscaling:EC2_INSTANCE_TERMINATING".
	Transition string `tf:"lifecycle_transition"`
}

var lifecycleHooks = resource.Kind[LifecycleHook, *Client]{
	Name:   "aws_autoscaling_lifecycle_hook",
	API:    apiAutoScaling,
	Key:    func(h *LifecycleHook) string { return nameOf(h.Group) + "/" + h.Name },
	List:   listHooks,
	Create: putHook,
	Update: []resource.Setter[LifecycleHook, *Client]{
		{Fields: []string{"DefaultResult", "HeartbeatTimeout", "Transition"},
			Set: func(ctx context.Context, c *Client, _, want *LifecycleHook) error { return putHook(ctx, c, want) }},
	},
	Delete: deleteHook,
}

// NewLifecycleHook declares a hook.
func NewLifecycleHook(name string, h LifecycleHook) resource.Node {
	return resource.New(&lifecycleHooks, name, h)
}

// groupHooks is what is remembered of a group: the hooks of the group with the
// ARN, which no later group of the same name has.
type groupHooks struct {
	ARN   string
	Hooks []hookRecord
}

type hookRecord struct {
	Name, DefaultResult, Transition string
	HeartbeatTimeout                int
}

// memoKey names a group among those of all accounts and regions.
func memoKey(c *Client, group string) string {
	return "hooks/" + c.AccountID + "/" + c.Region + "/" + group
}

// listHooks asks for the hooks of each group that is not remembered. For a
// deletion it finds none: they go with their groups.
func listHooks(ctx context.Context, c *Client, s resource.Scope) ([]*LifecycleHook, error) {
	if s.All {
		return nil, nil
	}
	groups, err := describeGroups(ctx, c, s)
	if err != nil {
		return nil, err
	}
	return eachOf(ctx, groups, func(ctx context.Context, g astypes.AutoScalingGroup) ([]*LifecycleHook, error) {
		records, err := ask(ctx, c, "hooks of "+*g.AutoScalingGroupName, func(ctx context.Context) ([]hookRecord, error) {
			return hooksOf(ctx, c, *g.AutoScalingGroupName, deref(g.AutoScalingGroupARN))
		})
		out := make([]*LifecycleHook, len(records))
		for i, r := range records {
			out[i] = &LifecycleHook{Name: r.Name, Group: resource.Lit(*g.AutoScalingGroupName), DefaultResult: r.DefaultResult,
				HeartbeatTimeout: r.HeartbeatTimeout, Transition: r.Transition}
		}
		return out, err
	})
}

func hooksOf(ctx context.Context, c *Client, group, arn string) ([]hookRecord, error) {
	if hooks, ok := rememberedHooks(c, group, arn); ok {
		return hooks, nil
	}
	out, err := c.AutoScaling.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &group})
	if hasCode(err, "ValidationError") { // the group went away after it was described
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describe the lifecycle hooks of %s: %w", group, err)
	}
	hooks := make([]hookRecord, len(out.LifecycleHooks))
	for i, h := range out.LifecycleHooks {
		hooks[i] = hookRecord{Name: *h.LifecycleHookName, DefaultResult: deref(h.DefaultResult),
			Transition: deref(h.LifecycleTransition), HeartbeatTimeout: int(deref(h.HeartbeatTimeout))}
	}
	remember(c, memoKey(c, group), groupHooks{ARN: arn, Hooks: hooks})
	return hooks, nil
}

// rememberedHooks returns the hooks of a group that were observed before. What
// cannot be read, or is of an earlier group of the name, is not remembered.
func rememberedHooks(c *Client, group, arn string) ([]hookRecord, bool) {
	g, ok := recall[groupHooks](c, memoKey(c, group))
	return g.Hooks, ok && g.ARN == arn && arn != ""
}

func putHook(ctx context.Context, c *Client, h *LifecycleHook) error {
	group := known(h.Group)
	forget(c, memoKey(c, group))
	defer forget(c, memoKey(c, group))
	_, err := c.AutoScaling.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{
		AutoScalingGroupName: &group, LifecycleHookName: &h.Name, DefaultResult: orNil(h.DefaultResult),
		HeartbeatTimeout: number(h.HeartbeatTimeout), LifecycleTransition: &h.Transition})
	return err
}

// deleteHook takes a validation error for a hook or group that does not exist:
// the two names are all that the call is given.
func deleteHook(ctx context.Context, c *Client, h *LifecycleHook) error {
	group := known(h.Group)
	forget(c, memoKey(c, group))
	defer forget(c, memoKey(c, group))
	_, err := c.AutoScaling.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{
		AutoScalingGroupName: &group, LifecycleHookName: &h.Name})
	if hasCode(err, "ValidationError") {
		return nil
	}
	return err
}
