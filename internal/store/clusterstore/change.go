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
	// recordTime is how long it may take to record a change that was made, also after the
	// command was stopped.
	recordTime = 10 * time.Second
	// mostRead is how many revisions are read to find one that was applied.
	mostRead = 5
)

// Change saves a cluster as Save does, and records what changed as a revision. A change
// that is stored and cannot be recorded is an error.
func (s *Store) Change(ctx context.Context, who Holder, was, now *Contents) (*Contents, error) {
	saved, writes, err := s.save(ctx, was, now)
	if err != nil || len(writes) == 0 {
		return saved, err
	}
	r := Revision{Holder: who, Result: Stored}
	if r.Changes, err = changes(was, saved); err != nil {
		return nil, err
	}
	if len(r.Changes) == 0 { // the same, written otherwise
		for _, w := range writes {
			r.Changes = append(r.Changes, Change{Object: w.object, Whole: "rewritten"})
		}
	}
	if err := s.note(ctx, saved, was == nil, r); err != nil {
		return nil, fault.Wrap(fault.Of(err), fmt.Errorf("the change of cluster %s is stored, but missing from its history: %w", saved.Spec.Name, err), "")
	}
	return saved, nil
}

// Note records something that was done about a cluster outside of its objects.
func (s *Store) Note(ctx context.Context, who Holder, c *Contents, message string) error {
	return s.note(ctx, c, false, Revision{Holder: who, Result: "done", Message: message})
}

// note records a change that was not made under a lease. first says that the cluster is new.
func (s *Store) note(ctx context.Context, c *Contents, first bool, r Revision) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := r.hold(c); err != nil {
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

// LastApplied reads the newest of some revisions that was fully applied, and returns
// the numbers before it; nil if none of the newest was. The numbers are as Revisions returns
// them. Stored revisions point to the last applied one, so that few are read.
func (s *Store) LastApplied(ctx context.Context, cluster string, numbers []int) (*Revision, []int, error) {
	for range mostRead {
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
