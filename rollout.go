package kops

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/drive"
	"kops.local/kops/internal/store/clusterstore"
)

// Rollout is the replacement, or the restart in place, of the machines of a cluster, and
// RolloutPlan a preview of one.
type (
	Rollout     = status.Rollout
	RolloutPlan = status.RolloutPlan
)

// RolloutOptions configure which machines are rolled, and how. Start with DefaultRollout.
type RolloutOptions struct {
	ReachOptions
	// Groups and Roles limit the rollout to some instance groups.
	Groups, Roles []string
	// Instance is the name of the only machine to roll, or of its node; empty means all that need it.
	Instance string
	// Surge false means that no machine is created before another is removed.
	Surge bool
	// Force also rolls machines that do not need it.
	Force bool
	// CloudOnly neither queries nor changes nodes.
	CloudOnly bool
	// Interactive asks after each machine whether to continue.
	Interactive bool
	// Intervals are the pauses after a machine.
	BastionInterval, ControlPlaneInterval, NodeInterval time.Duration
	// ValidateCount is how many times in a row the cluster must be found healthy between machines; 0 means no validation.
	ValidateCount int32
	// ValidationTimeout is how long the cluster may take to become healthy.
	ValidationTimeout time.Duration
	// DrainTimeout is the time limit of a drain, and PostDrainDelay the pause after one.
	DrainTimeout, PostDrainDelay time.Duration
	// FailOnDrainError and FailOnValidateError stop a group if a machine cannot be
	// drained, or if the cluster is not healthy after a machine.
	FailOnDrainError, FailOnValidateError bool
	// GateCommands and GateURLs are checks that must pass between machines: a command
	// with its arguments, and a URL that must respond with 2xx.
	GateCommands [][]string
	GateURLs     []string
	// Ask asks the user a question and returns one of its choices; nil means that no user is available.
	Ask func(context.Context, status.Question) (string, error)
	// Life is the lifetime of the credentials for the API server; 0 means 18 hours.
	Life time.Duration
	// On receives the events of the rollout.
	On On
}

// rolloutLife is the default lifetime of a rollout's credentials (kOps').
const rolloutLife = 18 * time.Hour

// DefaultRollout returns the default options.
func DefaultRollout() RolloutOptions {
	d := roll.Defaults()
	return RolloutOptions{
		Surge: true, BastionInterval: d.BastionInterval, ControlPlaneInterval: d.ControlPlaneInterval, NodeInterval: d.NodeInterval,
		ValidateCount: int32(d.ValidateCount), ValidationTimeout: d.ValidationTimeout, DrainTimeout: d.DrainTimeout, PostDrainDelay: d.PostDrainDelay,
		FailOnDrainError: d.FailOnDrainError, FailOnValidateError: d.FailOnValidateError, Life: rolloutLife,
	}
}

// rollOptions converts the options to those of a rollout.
func (o *RolloutOptions) rollOptions() roll.Options {
	out := roll.Defaults()
	out.CloudOnly, out.Interactive, out.Ask = o.CloudOnly, o.Interactive, o.Ask != nil
	out.BastionInterval, out.ControlPlaneInterval, out.NodeInterval = o.BastionInterval, o.ControlPlaneInterval, o.NodeInterval
	out.ValidateCount, out.ValidationTimeout = int(o.ValidateCount), o.ValidationTimeout
	out.DrainTimeout, out.PostDrainDelay = o.DrainTimeout, o.PostDrainDelay
	out.FailOnDrainError, out.FailOnValidateError = o.FailOnDrainError, o.FailOnValidateError
	for _, c := range o.GateCommands {
		out.Gates = append(out.Gates, roll.Gate{Command: c})
	}
	for _, u := range o.GateURLs {
		out.Gates = append(out.Gates, roll.Gate{URL: u})
	}
	return out
}

// Rollout replaces, or restarts, the machines that do not match the objects of a cluster.
// An unfinished rollout is continued instead, with its original options. Rollout returns
// when the rollout has ended, and an error of class NotYet if it was stopped; the next
// call continues an interrupted one.
func (c *Client) Rollout(ctx context.Context, name string, o RolloutOptions) (*Rollout, error) {
	progress := &reporter{cluster: name, on: o.On}
	var out *Rollout
	err := c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		r, err := c.newRoller(ctx, progress, o)
		if err != nil {
			return err
		}
		r.lease = lease
		out, err = r.roll(ctx)
		return err
	})
	if err == nil {
		err = unfinishedError(name, out)
	}
	return out, err
}

// DeleteInstance replaces one machine, given by its name or its node's name, like a rollout.
func (c *Client) DeleteInstance(ctx context.Context, cluster, instance string, o RolloutOptions) (*Rollout, error) {
	if instance == "" {
		return nil, errors.New("the name of the instance is empty")
	}
	return c.Rollout(ctx, cluster, o.ofInstance(instance))
}

// ofInstance returns these options for one machine, without waiting after it.
func (o RolloutOptions) ofInstance(instance string) RolloutOptions {
	o.Instance = instance
	o.BastionInterval, o.ControlPlaneInterval, o.NodeInterval = 0, 0, 0
	return o
}

// ErrDeclined is the error of a rollout that the user chose not to continue.
var ErrDeclined = errors.New("the rollout stopped at your request")

// ErrAborted is the error of a rollout that AbortRollout ended before all machines were done.
var ErrAborted = errors.New("the rollout was aborted")

// unfinishedError returns the error of a rollout that ended before all machines were done.
func unfinishedError(cluster string, r *Rollout) error {
	if r == nil {
		return nil
	}
	why, back := r.Stopped, 0
	done, all := r.Done()
	for _, g := range r.Groups {
		back = cmp.Or(back, g.Revision)
		if why == "" && g.Stopped != "" {
			why = fmt.Sprintf("group %s: %s", g.Name, g.Stopped)
		}
	}
	switch {
	case r.Declined:
		return ErrDeclined
	case r.Aborted && done < all:
		return ErrAborted
	case why == "":
		return nil
	}
	remedy := "fix it, then start again: kops rolling-update cluster " + cluster + " --yes"
	if back > 0 {
		remedy += fmt.Sprintf("; or go back to the objects of revision %d: kops upgrade cluster %s --rollback --revision %d --yes", back, cluster, back)
	}
	return fault.Wrap(fault.NotYet, fmt.Errorf("the rollout stopped: %s", why), remedy)
}

// storedRollout reads the rollout of a cluster; nil if there is none. A state that
// cannot be read, because another version of this program wrote it, is an error.
func (c *Client) storedRollout(ctx context.Context, cluster string) (*roll.State, *rolloutFile, error) {
	file := &rolloutFile{store: c.store, cluster: cluster}
	data, version, err := c.store.Rollout(ctx, cluster)
	if fault.Is(err, fault.Gone) {
		return nil, file, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var s roll.State
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, nil, fmt.Errorf("read the rollout of cluster %s: %w", cluster, err)
	}
	file.version = version
	return &s, file, nil
}

// RolloutStatus returns the last rollout of a cluster. The error is of the class Gone if the
// cluster has had no rollout.
func (c *Client) RolloutStatus(ctx context.Context, name string) (*Rollout, error) {
	if _, err := c.Clusters().Get(ctx, name); err != nil {
		return nil, err
	}
	s, _, err := c.storedRollout(ctx, name)
	if err == nil && s == nil {
		err = fault.New(fault.Gone, "cluster %s has no rollout", name)
	}
	if err != nil {
		return nil, err
	}
	out := rolloutOf(s)
	if s.Ended.IsZero() {
		out.Driver, err = c.Leases().Holder(ctx, name)
	}
	return out, err
}

// PauseRollout pauses the rollout of a cluster: no further machine is started, and machines in
// progress are finished. The process that drives it pauses within seconds.
func (c *Client) PauseRollout(ctx context.Context, name string) (*Rollout, error) {
	return c.storeRequest(ctx, name, roll.Pause)
}

// ResumeRollout continues a paused rollout, and its stopped groups.
func (c *Client) ResumeRollout(ctx context.Context, name string) (*Rollout, error) {
	return c.storeRequest(ctx, name, roll.Resume)
}

// AbortRollout ends the rollout of a cluster without finishing it.
func (c *Client) AbortRollout(ctx context.Context, name string) (*Rollout, error) {
	return c.storeRequest(ctx, name, roll.Abort)
}

// storedRequest is a stored request: it applies to one rollout.
type storedRequest struct {
	Rollout string    `json:"rollout"`
	Want    roll.Want `json:"want"`
}

// storeRequest stores a request for the process that drives the rollout, or will continue it.
// Driver in the result is empty if no process drives it now.
func (c *Client) storeRequest(ctx context.Context, name string, want roll.Want) (*Rollout, error) {
	r, err := c.RolloutStatus(ctx, name)
	if err != nil {
		return nil, err
	}
	if !r.Ended.IsZero() {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the last rollout of cluster %s has ended", name), "start another: kops rolling-update cluster "+name+" --yes")
	}
	text, err := json.Marshal(storedRequest{r.ID, want})
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return r, c.store.AddRolloutRequest(ctx, name, text)
}

// newID returns an identifier for a rollout.
func (c *Client) newID() (string, error) {
	some := make([]byte, 3)
	if _, err := io.ReadFull(c.cfg.World.Random, some); err != nil {
		return "", fmt.Errorf("name the rollout: %w", err)
	}
	return c.cfg.World.Now().UTC().Format("20060102-150405-") + hex.EncodeToString(some), nil
}

// notStoredError converts an error of a driver whose state may be stored on a retry.
func notStoredError(err error) error {
	if err == nil || errors.Is(err, clusterstore.ErrLost) || fault.Is(err, fault.Conflict) || fault.Is(err, fault.Denied) {
		return err
	}
	return fmt.Errorf("%w: %w", drive.ErrNotKept, err)
}
