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

// LifecycleHook pauses an instance of a group while it starts or terminates.
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
	// InstanceGroup is the instance group of the paused machines; AWS does not store it.
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

// groupHooks are the remembered hooks of a group. The ARN distinguishes
// it from later groups of the same name. If kops has just created the
// group, its ARN is not known yet, but its creation time is.
type groupHooks struct {
	ARN   string
	Made  time.Time
	Hooks []hookRecord
}

// clockSkew is how far this clock may be behind AWS' clock.
const clockSkew = time.Minute

// belongTo reports whether the hooks belong to an observed group, and not to
// an earlier one of the same name.
func (h groupHooks) belongTo(g astypes.AutoScalingGroup) bool {
	if h.ARN != "" {
		return h.ARN == deref(g.AutoScalingGroupARN)
	}
	return g.CreatedTime != nil && !g.CreatedTime.After(h.Made.Add(clockSkew))
}

type hookRecord struct {
	Name, DefaultResult, Transition string
	HeartbeatTimeout                int
}

// memoKey returns a key for a group that is unique across accounts and regions.
func memoKey(c *Client, group string) string {
	return "hooks/" + c.AccountID + "/" + c.Region + "/" + group
}

// listHooks requests the hooks of each group whose hooks are not remembered. For a deletion it
// returns none: they are deleted with their groups.
func listHooks(ctx context.Context, c *Client, s resource.Scope) ([]*LifecycleHook, error) {
	if s.All {
		return nil, nil
	}
	groups, err := describeGroups(ctx, c, s)
	if err != nil {
		return nil, err
	}
	return observe.EachOf(ctx, groups, func(ctx context.Context, g astypes.AutoScalingGroup) ([]*LifecycleHook, error) {
		records, err := oncePerSnapshot(ctx, c, "hooks of "+*g.AutoScalingGroupName, func(ctx context.Context) ([]hookRecord, error) {
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
	if known, ok := past.Recall[groupHooks](c.Past, memoKey(c, group)); ok && known.belongTo(g) {
		return known.Hooks, nil
	}
	out, err := c.AutoScaling.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &group})
	if hasCode(err, "ValidationError") { // the group was deleted after it was described
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
// be interrupted, and stores change's result after a successful write. Writes to one group are
// serialized, so that none stores hooks that another has changed.
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

// withoutHook returns the hooks except the one with the name.
func withoutHook(hooks []hookRecord, name string) []hookRecord {
	return slices.DeleteFunc(slices.Clone(hooks), func(h hookRecord) bool { return h.Name == name })
}

func putHook(ctx context.Context, c *Client, h *LifecycleHook) error {
	group := h.Group.Text()
	return changeHooks(c, group, func() error {
		_, err := c.AutoScaling.PutLifecycleHook(ctx, &autoscaling.PutLifecycleHookInput{
			AutoScalingGroupName: &group, LifecycleHookName: &h.Name, DefaultResult: stringOrNil(h.DefaultResult),
			HeartbeatTimeout: number(h.HeartbeatTimeout), LifecycleTransition: &h.Transition})
		return err
	}, func(hooks []hookRecord) []hookRecord {
		return append(withoutHook(hooks, h.Name), hookRecord{h.Name, h.DefaultResult, h.Transition, h.HeartbeatTimeout})
	})
}

// deleteHook treats a validation error as a hook or group that does not exist: the two names are
// the call's only parameters.
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
