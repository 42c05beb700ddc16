package kops

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/rotate"
	"kops.local/kops/internal/store"
)

// RotateOptions configure a rotation of keys.
type RotateOptions struct {
	ReachOptions
	// Apply runs it; otherwise the plan is only returned.
	Apply bool
	// Roll makes every machine apply the changes of an update. It may be nil: the rotation then
	// stops before machines must change, and continues when they have.
	Roll func(context.Context) error
	// Facts and AllowUnverified are the options of each update.
	Facts           *Facts
	AllowUnverified bool
	// On receives the events of the rotation.
	On On
}

// Rotation is the replacement of keys, or the plan of one.
type Rotation struct {
	// What is ca, service-account, etcd, encryption or all.
	What string `json:"what"`
	// Began and Ended are zero in a plan, and while it is in progress.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Step is the next step; "done" when it is finished.
	Step  string         `json:"step"`
	Steps []RotationStep `json:"steps"`
	// Keysets are the keysets whose keys are replaced, and Encryption means that the API server's
	// encryption key is also replaced.
	Keysets    []string `json:"keysets,omitempty"`
	Encryption bool     `json:"encryption,omitempty"`
	// Left are pods that were not restarted; in a plan, pods that will not be.
	Left []string `json:"left,omitempty"`
	// NoBackup is the reason why no backup of etcd was taken at the end.
	NoBackup string `json:"noBackup,omitempty"`
	// Unknown is the reason why a plan does not know the effect on machines and pods.
	Unknown string `json:"unknown,omitempty"`
	// Progress is how many objects of a resource were rewritten; only in an event.
	Progress string `json:"progress,omitempty"`
}

// RotationStep is a step of a rotation.
type RotationStep struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Moves means that machines change in it.
	Moves bool `json:"moves,omitempty"`
	Done  bool `json:"done,omitempty"`
	// Restarts and Replaces count, in a plan, the machines that are changed in place, and those
	// that are replaced; Minutes is the approximate duration, as in Aftermath.
	Restarts int `json:"restarts,omitempty"`
	Replaces int `json:"replaces,omitempty"`
	Minutes  int `json:"minutes,omitempty"`
}

// rotation is one call of Rotate.
type rotation struct {
	c        *Client
	progress *reporter
	o        RotateOptions
	state    rotate.State
	version  store.Version
}

// Rotate replaces keys of a cluster while it serves: all, or the keys of its authority, of
// service accounts, of etcd, or the encryption key of the API server. Its progress is
// stored, and any later call continues from there. An error of class fault.NotYet
// states what it waits for.
func (c *Client) Rotate(ctx context.Context, cluster, what string, o RotateOptions) (*Rotation, error) {
	if !slices.Contains([]string{rotate.CA, rotate.ServiceAccount, rotate.Etcd, rotate.Encryption, rotate.All}, what) {
		return nil, fault.New(fault.Permanent, "cannot rotate %q; use ca, service-account, etcd, encryption or all", what)
	}
	r := &rotation{c: c, progress: &reporter{cluster: cluster, on: o.On}, o: o}
	names, err := r.open(ctx, what)
	if err != nil {
		return nil, err
	}
	if !o.Apply {
		return r.preview(ctx, names), nil
	}
	for r.state.Step != rotate.Done {
		if err := r.progress.report(Event{Kind: EventRotation, Rotation: r.public(names)}); err != nil {
			return nil, err
		}
		if err := r.step(ctx); err != nil {
			return r.public(names), fmt.Errorf("rotate %s, step %s: %w", what, r.state.Step, err)
		}
		next := r.state.Next(c.cfg.World.Now())
		if err := r.keep(ctx, next); err != nil {
			return nil, err
		}
	}
	return r.public(names), nil
}

// open reads the rotation in progress, or begins one, and returns its keysets.
func (r *rotation) open(ctx context.Context, what string) ([]string, error) {
	cl, err := r.c.Clusters().Get(ctx, r.progress.cluster)
	if err != nil {
		return nil, err
	}
	f, err := r.c.ownedFolders(ctx, cl)
	if err != nil {
		return nil, err
	}
	all, err := f.Keysets(ctx)
	if err != nil {
		return nil, err
	}
	names := rotate.Keysets(what, slices.Collect(maps.Keys(all)))
	if r.state, r.version, err = r.c.rotation(ctx, r.progress.cluster); err != nil {
		return nil, err
	}
	if r.state.What != "" {
		if err := r.state.Check(what); err != nil {
			return nil, unfinishedRotationError(r.progress.cluster, r.state, err)
		}
		if r.state.Step != rotate.Done {
			return names, nil
		}
	}
	if len(names) == 0 && what != rotate.Encryption {
		return nil, fault.New(fault.Gone, "cluster %s has no keys for %s yet; run `kops update cluster %s --yes` first", r.progress.cluster, what, r.progress.cluster)
	}
	now := r.c.cfg.World.Now().UTC()
	r.state = rotate.State{What: what, Began: now, Since: now, Step: rotate.Make}
	if encrypts(cl.Spec) && (what == rotate.Encryption || what == rotate.All) {
		r.state.Key = fmt.Sprintf("key-%d", now.Unix())
	}
	if what == rotate.Encryption && !encrypts(cl.Spec) {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the API servers of %s do not encrypt objects in etcd: spec.encryptionConfig is not true", r.progress.cluster),
			"store a configuration with kops create secret encryptionconfig, and set the field")
	}
	return names, nil
}

// rotation reads the state of the last rotation of a cluster; it is zero if there was none.
func (c *Client) rotation(ctx context.Context, cluster string) (s rotate.State, v store.Version, err error) {
	data, v, err := c.store.Rotation(ctx, cluster)
	if err != nil || len(data) == 0 {
		return s, v, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, v, fmt.Errorf("read the rotation of cluster %s: %w", cluster, err)
	}
	return s, v, nil
}

// putRotation writes the state of a rotation, if the stored one still has the given version.
func (c *Client) putRotation(ctx context.Context, cluster string, s rotate.State, v store.Version) (store.Version, error) {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the rotation of cluster %s: %w", cluster, err)
	}
	return c.store.PutRotation(ctx, cluster, append(data, '\n'), v)
}

// unfinishedRotationError returns the error of a command that is not allowed during an unfinished
// rotation.
func unfinishedRotationError(cluster string, s rotate.State, err error) error {
	return fault.Wrap(fault.Conflict, err, "finish it first: kops rotate "+s.What+" --name "+cluster+" --yes")
}

// checkNotRotated returns an error if a rotation of one of the keysets is not finished: another
// signing key, or one that is distrusted early, would lock out machines that the rotation has not
// reached.
func (c *Client) checkNotRotated(ctx context.Context, cluster string, keysets []string) error {
	s, _, err := c.rotation(ctx, cluster)
	if err != nil || len(rotate.Keysets(s.What, keysets)) == 0 {
		return err
	}
	if err := s.Check(""); err != nil {
		return unfinishedRotationError(cluster, s, err)
	}
	return nil
}

// keep stores the state.
func (r *rotation) keep(ctx context.Context, next rotate.State) error {
	v, err := r.c.putRotation(ctx, r.progress.cluster, next, r.version)
	if err == nil {
		r.state, r.version = next, v
	}
	return err
}

// public returns the public form of the rotation.
func (r *rotation) public(keysets []string) *Rotation {
	s := r.state
	out := &Rotation{What: s.What, Step: string(s.Step), Ended: s.Ended, Keysets: keysets, Encryption: s.Key != "", Left: s.Left, NoBackup: s.NoBackup}
	if r.version != "" {
		out.Began = s.Began
	}
	steps := rotate.Steps(s.What, s.Key != "")
	at := slices.Index(steps, s.Step)
	for i, step := range steps {
		out.Steps = append(out.Steps, RotationStep{Name: string(step), Text: step.Text(), Moves: step.ReplacesMachines(), Done: s.Step == rotate.Done || i < at})
	}
	return out
}

// step does the next step. It is idempotent.
func (r *rotation) step(ctx context.Context) error {
	switch r.state.Step {
	case rotate.Make:
		return r.make(ctx)
	case rotate.Trust, rotate.Reissue, rotate.Forget:
		return r.move(ctx)
	case rotate.Pods, rotate.Tokens:
		return r.restart(ctx)
	case rotate.Promote:
		return r.change(ctx, "promoted the keys of the rotation", func(k *pki.Keyset, _ string) (*pki.Keyset, error) {
			now, _, err := k.Promote(r.state.New[k.Name])
			return now, err
		}, promoteKey)
	case rotate.Rewrite:
		return r.rewrite(ctx)
	case rotate.BackUp:
		return r.backUp(ctx)
	case rotate.Distrust:
		if err := r.checkUnused(ctx); err != nil {
			return err
		}
		return r.change(ctx, "distrusted the keys from before the rotation", func(k *pki.Keyset, name string) (*pki.Keyset, error) {
			now, changed, err := k.Distrust(r.state.Old[name], r.c.cfg.World.Now())
			if err == nil && len(changed) == 0 || len(r.state.Old[name]) == 0 {
				now = k
			}
			return now, err
		}, onlyKey)
	}
	return fault.New(fault.Permanent, "the step %q is unknown: a newer kops began this rotation, and only that version can finish it", r.state.Step)
}
