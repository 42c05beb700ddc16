package clusterstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/difference"
)

const (
	// recordTime is how long recording a change may take, even after the command was stopped.
	recordTime = 10 * time.Second
	// maxRead is how many revisions are read to find one that was applied.
	maxRead = 5
)

// Change saves a cluster as Save does, and records what changed as a revision. It is an
// error if a change is stored but cannot be recorded.
func (s *Store) Change(ctx context.Context, who Holder, was, now *Contents) (*Contents, error) {
	saved, writes, err := s.save(ctx, was, now)
	if err != nil || len(writes) == 0 {
		return saved, err
	}
	r := Revision{Holder: who, Result: Stored}
	if r.Changes, err = changes(was, saved); err != nil {
		return nil, err
	}
	if len(r.Changes) == 0 { // the same content in another form
		for _, w := range writes {
			r.Changes = append(r.Changes, Change{Object: w.object, Whole: "rewritten"})
		}
	}
	if err := s.note(ctx, saved, was == nil, r); err != nil {
		return nil, fault.Wrap(fault.Of(err), fmt.Errorf("the change of cluster %s is stored, but missing from its history: %w", saved.Spec.Name, err), "")
	}
	return saved, nil
}

// Note records an action on a cluster other than a change of its objects.
func (s *Store) Note(ctx context.Context, who Holder, c *Contents, message string) error {
	return s.note(ctx, c, false, Revision{Holder: who, Result: "done", Message: message})
}

// note records a change that was not made under a lease. first means that the cluster is new.
func (s *Store) note(ctx context.Context, c *Contents, first bool, r Revision) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := r.setSpec(c); err != nil {
		return err
	}
	n := 1
	if !first {
		numbers, err := s.Revisions(ctx, c.Spec.Name)
		if err != nil {
			return err
		}
		n += slices.Max(append(numbers, 0))
		if last, _, err := s.LastApplied(ctx, c.Spec.Name, numbers); err == nil && last != nil {
			r.LastApplied = last.Number
		}
	}
	_, err := s.record(ctx, c.Spec.Name, n, r)
	return err
}

// LastApplied reads the newest of the given revisions that was fully applied, and returns it
// with the numbers before it; nil if none of the newest was. The numbers are as returned by
// Revisions. Stored revisions point to the last applied one, so only a few are read.
func (s *Store) LastApplied(ctx context.Context, cluster string, numbers []int) (*Revision, []int, error) {
	for range maxRead {
		if len(numbers) == 0 {
			break
		}
		r, err := s.Revision(ctx, cluster, numbers[0])
		if err != nil {
			return nil, nil, err
		}
		numbers = numbers[1:]
		if r.Applied() {
			return &r, numbers, nil
		}
		if r.LastApplied > 0 {
			numbers = slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n > r.LastApplied })
		}
	}
	return nil, nil, nil
}

// changes lists the fields in which two states of a cluster differ.
func changes(was, now *Contents) ([]Change, error) {
	all, err := difference.Between(was.objects(), now.objects())
	var out []Change
	for _, f := range all {
		c := Change{Object: f.Object, Field: f.Path}
		switch {
		case f.Path != "":
		case f.Old == difference.Absent:
			c.Whole = "created"
		default:
			c.Whole = "deleted"
		}
		out = append(out, c)
	}
	return out, err
}
