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

// RotateOptions say how keys are rotated.
type RotateOptions struct {
	ReachOptions
	// Apply carries it out; otherwise it is only told.
	Apply bool
	// Roll has every machine take up what an update has written for it. It may be nil: the
	// rotation stops then before machines have to change, and goes on when they have.
	Roll func(context.Context) error
	// On receives the events of the rotation.
	On On
}

// Rotation is the replacement of keys, or the plan of one.
type Rotation struct {
	// What is ca, service-account, etcd, encryption or all.
	What string `json:"what"`
	// Began and Ended are zero in a plan, and while it is under way.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Step is the next one; "done" at the end.
	Step  string         `json:"step"`
	Steps []RotationStep `json:"steps"`
	// Keysets are those whose keys are replaced, and Encryption says that the key is among
	// them by which the API server encrypts.
	Keysets    []string `json:"keysets,omitempty"`
	Encryption bool     `json:"encryption,omitempty"`
	// Left are pods that were not restarted; in a plan, pods that will not be.
	Left []string `json:"left,omitempty"`
	// NoBackup says why no backup of etcd was taken at the end.
	NoBackup string `json:"noBackup,omitempty"`
	// Unknown says in a plan why it is not known what becomes of machines and pods.
	Unknown string `json:"unknown,omitempty"`
	// Progress is how many objects of a resource were rewritten, in an event.
	Progress string `json:"progress,omitempty"`
}

// RotationStep is a step of a rotation.
type RotationStep struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Moves says that machines change in it.
	Moves bool `json:"moves,omitempty"`
	Done  bool `json:"done,omitempty"`
	// Restarts and Replaces count in a plan the machines that change where they are, and those
	// that others take the place of; Minutes is about how long that takes, as for Aftermath.
	Restarts int `json:"restarts,omitempty"`
	Replaces int `json:"replaces,omitempty"`
	Minutes  int `json:"minutes,omitempty"`
}

// rotation is one call of Rotate.
type rotation struct {
	c       *Client
	told    *call
	o       RotateOptions
	state   rotate.State
	version store.Version
}

// Rotate replaces keys of a cluster while it serves: all, or those of its authority, of
// service accounts, of etcd, or that by which the API server encrypts. How far it has come is
// kept in the store, and any later call goes on from there. An error of class fault.NotYet
// says what it waits for.
func (c *Client) Rotate(ctx context.Context, cluster, what string, o RotateOptions) (*Rotation, error) {
	if !slices.Contains([]string{rotate.CA, rotate.ServiceAccount, rotate.Etcd, rotate.Encryption, rotate.All}, what) {
		return nil, fault.New(fault.Permanent, "%q cannot be rotated; ca, service-account, etcd, encryption and all can", what)
	}
	r := &rotation{c: c, told: &call{cluster: cluster, on: o.On}, o: o}
	names, err := r.open(ctx, what)
	if err != nil {
		return nil, err
	}
	if !o.Apply {
		return r.foreseen(ctx, names), nil
	}
	for r.state.Step != rotate.Done {
		if err := r.told.tell(Event{Kind: EventRotation, Rotation: r.shown(names)}); err != nil {
			return nil, err
		}
		if err := r.step(ctx); err != nil {
			return r.shown(names), fmt.Errorf("rotate %s, step %s: %w", what, r.state.Step, err)
		}
		next := r.state.Next(c.cfg.World.Now())
		if err := r.keep(ctx, next); err != nil {
			return nil, err
		}
	}
	return r.shown(names), nil
}

// open reads the rotation that is under way, or begins one, and returns the keysets of it.
func (r *rotation) open(ctx context.Context, what string) ([]string, error) {
	cl, err := r.c.Clusters().Get(ctx, r.told.cluster)
	if err != nil {
		return nil, err
	}
	f, err := r.c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil {
		return nil, err
	}
	all, err := f.Keysets(ctx)
	if err != nil {
		return nil, err
	}
	names := rotate.Keysets(what, slices.Collect(maps.Keys(all)))
	data, version, err := r.c.store.Rotation(ctx, r.told.cluster)
	if err != nil {
		return nil, err
	}
	r.version = version
	if len(data) > 0 {
		if err := json.Unmarshal(data, &r.state); err != nil {
			return nil, fmt.Errorf("read the rotation of cluster %s: %w", r.told.cluster, err)
		}
		if err := r.state.Check(what); err != nil {
			return nil, fault.Wrap(fault.Conflict, err, "finish it first: kops rotate "+r.state.What+" --name "+r.told.cluster+" --yes")
		}
		if r.state.Step != rotate.Done {
			return names, nil
		}
	}
	if len(names) == 0 && what != rotate.Encryption {
		return nil, fault.New(fault.Gone, "cluster %s has no keysets of %s yet; run `kops update cluster %s --yes` first", r.told.cluster, what, r.told.cluster)
	}
	now := r.c.cfg.World.Now().UTC()
	r.state = rotate.State{What: what, Began: now, Since: now, Step: rotate.Make}
	encrypts := cl.Spec.Spec.EncryptionConfig != nil && *cl.Spec.Spec.EncryptionConfig
	if encrypts && (what == rotate.Encryption || what == rotate.All) {
		r.state.Key = fmt.Sprintf("key-%d", now.Unix())
	}
	if what == rotate.Encryption && !encrypts {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the API servers of %s do not encrypt objects in etcd: spec.encryptionConfig is not true", r.told.cluster),
			"store a configuration with kops create secret encryptionconfig, and set the field")
	}
	return names, nil
}

// keep writes the state.
func (r *rotation) keep(ctx context.Context, next rotate.State) error {
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("write the rotation of cluster %s: %w", r.told.cluster, err)
	}
	v, err := r.c.store.PutRotation(ctx, r.told.cluster, append(data, '\n'), r.version)
	if err == nil {
		r.state, r.version = next, v
	}
	return err
}

// shown is the rotation as it is told.
func (r *rotation) shown(keysets []string) *Rotation {
	s := r.state
	out := &Rotation{What: s.What, Step: string(s.Step), Ended: s.Ended, Keysets: keysets, Encryption: s.Key != "", Left: s.Left, NoBackup: s.NoBackup}
	if r.version != "" {
		out.Began = s.Began
	}
	steps := rotate.Steps(s.What, s.Key != "")
	at := slices.Index(steps, s.Step)
	for i, step := range steps {
		out.Steps = append(out.Steps, RotationStep{Name: string(step), Text: step.Text(), Moves: step.Moves(), Done: s.Step == rotate.Done || i < at})
	}
	return out
}

// step does the next step. Done twice, it does no more than done once.
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
		}, promoted)
	case rotate.Rewrite:
		return r.rewrite(ctx)
	case rotate.BackUp:
		return r.backUp(ctx)
	case rotate.Distrust:
		if err := r.prove(ctx); err != nil {
			return err
		}
		return r.change(ctx, "distrusted the keys from before the rotation", func(k *pki.Keyset, name string) (*pki.Keyset, error) {
			now, changed, err := k.Distrust(r.state.Old[name], r.c.cfg.World.Now())
			if err == nil && len(changed) == 0 || len(r.state.Old[name]) == 0 {
				now = k
			}
			return now, err
		}, alone)
	}
	return fault.New(fault.Permanent, "the step %q is unknown: a newer kops began this rotation and has to finish it", r.state.Step)
}
