package kinds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
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
	// InstanceGroup is the one whose machines it holds; AWS does not know it.
	InstanceGroup string `res:"writeonly"`
}

// LifecycleHooks is the kind of LifecycleHook.
var LifecycleHooks = resource.Kind[LifecycleHook, *Client]{
	Name:   "aws_autoscaling_lifecycle_hook",
	API:    apiAutoScaling,
	Tasks:  []string{"AutoscalingLifecycleHook"},
	Early:  true,
	Group:  func(h *LifecycleHook) string { return h.InstanceGroup },
	Key:    func(h *LifecycleHook) string { return nameOf(h.Group) + "/" + h.Name },
	List:   listHooks,
	Create: putHook,
	Update: []resource.Setter[LifecycleHook, *Client]{
		{Fields: []string{"DefaultResult", "HeartbeatTimeout", "Transition"},
			Set: func(ctx context.Context, c *Client, _, want *LifecycleHook) error { return putHook(ctx, c, want) }},
	},
	Delete: deleteHook,
}

// groupHooks is the remembered state of a group: the hooks of the group with the ARN, which no
// later group of the same name has. If the group was just made here its ARN is not known yet, but
// its creation time is.
type groupHooks struct {
	ARN   string
	Made  time.Time
	Hooks []hookRecord
}

// clockSkew is how far this clock may be behind the one of AWS.
const clockSkew = time.Minute

// of reports whether the hooks belong to an observed group, and not to an earlier one of the same
// name.
func (h groupHooks) of(g astypes.AutoScalingGroup) bool {
	if h.ARN != "" {
		return h.ARN == deref(g.AutoScalingGroupARN)
	}
	return g.CreatedTime != nil && !g.CreatedTime.After(h.Made.Add(clockSkew))
}

type hookRecord struct {
	Name, DefaultResult, Transition string
	HeartbeatTimeout                int
}

// memoKey names a group uniquely among all accounts and regions.
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
	return observe.EachOf(ctx, groups, func(ctx context.Context, g astypes.AutoScalingGroup) ([]*LifecycleHook, error) {
		records, err := ask(ctx, c, "hooks of "+*g.AutoScalingGroupName, func(ctx context.Context) ([]hookRecord, error) {
			return hooksOf(ctx, c, g)
		})
		out := make([]*LifecycleHook, len(records))
		for i, r := range records {
			out[i] = &LifecycleHook{Name: r.Name, Group: resource.Lit(*g.AutoScalingGroupName), DefaultResult: r.DefaultResult,
				HeartbeatTimeout: r.HeartbeatTimeout, Transition: r.Transition}
		}
		return out, err
	})
}

func hooksOf(ctx context.Context, c *Client, g astypes.AutoScalingGroup) ([]hookRecord, error) {
	group := *g.AutoScalingGroupName
	if known, ok := past.Recall[groupHooks](c.Past, memoKey(c, group)); ok && known.of(g) {
		return known.Hooks, nil
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
	past.Remember(c.Past, memoKey(c, group), groupHooks{ARN: deref(g.AutoScalingGroupARN), Hooks: hooks})
	return hooks, nil
}

// changeHooks writes hooks of a group. It drops the remembered hooks first, because the write may
// be interrupted, and remembers change's result after a write that succeeded. The writes of one
// group take turns, so that none remembers hooks changed by another.
func changeHooks(c *Client, group string, write func() error, change func([]hookRecord) []hookRecord) error {
	turn, _ := c.turns.LoadOrStore("hooks of "+group, &sync.Mutex{})
	turn.(*sync.Mutex).Lock()
	defer turn.(*sync.Mutex).Unlock()
	known, ok := past.Recall[groupHooks](c.Past, memoKey(c, group))
	past.Forget(c.Past, memoKey(c, group))
	err := write()
	if err != nil || !ok {
		past.Forget(c.Past, memoKey(c, group))
		return err
	}
	known.Hooks = change(known.Hooks)
	past.Remember(c.Past, memoKey(c, group), known)
	return nil
}

// withoutHook returns the hooks that have another name.
func withoutHook(hooks []hookRecord, name string) []hookRecord {
	return slices.DeleteFunc(slices.Clone(hooks), func(h hookRecord) bool { return h.Name == name })
}

func putHook(ctx context.Context, c *Client, h *LifecycleHook) error {
	group := h.Group.Text()
	return changeHooks(c, group, func() error {
		_, err := c.AutoScaling.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{
			AutoScalingGroupName: &group, LifecycleHookName: &h.Name, DefaultResult: orNil(h.DefaultResult),
			HeartbeatTimeout: number(h.HeartbeatTimeout), LifecycleTransition: &h.Transition})
		return err
	}, func(hooks []hookRecord) []hookRecord {
		return append(withoutHook(hooks, h.Name), hookRecord{h.Name, h.DefaultResult, h.Transition, h.HeartbeatTimeout})
	})
}

// deleteHook takes a validation error for a hook or group that does not exist:
// the two names are all that the call is given.
func deleteHook(ctx context.Context, c *Client, h *LifecycleHook) error {
	group := h.Group.Text()
	return changeHooks(c, group, func() error {
		_, err := c.AutoScaling.DeleteLifecycleHook(ctx, &autoscaling.DeleteLifecycleHookInput{
			AutoScalingGroupName: &group, LifecycleHookName: &h.Name})
		if hasCode(err, "ValidationError") {
			return nil
		}
		return err
	}, func(hooks []hookRecord) []hookRecord { return withoutHook(hooks, h.Name) })
}
