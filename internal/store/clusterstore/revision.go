package clusterstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Revision is the record of one change of a cluster: of its objects in the store, of its
// keys, or of what was applied to its platform.
type Revision struct {
	Number int       `json:"number"`
	Time   time.Time `json:"time"`
	// Holder is who made the change; Fence is the number of the lease under which it was made.
	Holder
	Fence int64 `json:"fence,omitempty"`
	// Version is the program's version.
	Version string `json:"version,omitempty"`
	// Plan is the digest of the plan that was carried out, as its maker spells it; only a
	// change that was applied has one.
	Plan string `json:"plan,omitempty"`
	// Result is "done", "failed" or "interrupted", and Message says more. Of a change of the
	// objects alone it is Stored.
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
	// Changes are the fields that a change of the objects has changed.
	Changes []Change `json:"changes,omitempty"`
	// LastApplied is the number of the newest revision before a stored one that was applied
	// to its end; 0 where there is none or it is not known.
	LastApplied int `json:"lastApplied,omitempty"`
	// SpecDigest is the digest of Spec: the cluster, its groups and the additional
	// objects, as one file of v1alpha2.
	SpecDigest string `json:"specDigest"`
	Spec       string `json:"spec,omitempty"`
}

// Stored is the result of a change of the objects that was not applied by itself.
const Stored = "stored"

// Change is a field of an object that was changed.
type Change struct {
	// Object is Cluster, or kind and name: InstanceGroup/nodes.
	Object string `json:"object"`
	// Field is its path in v1alpha2; "" where the whole object is new or gone, as Whole says.
	Field string `json:"field,omitempty"`
	// Whole is "created", "deleted", or "rewritten": with the same fields, in another text.
	Whole string `json:"whole,omitempty"`
}

// Applied reports whether the objects of the revision were applied to its end.
func (r *Revision) Applied() bool { return r.Plan != "" && r.Result == "done" }

// revisionKey is the key of a revision in our own folder: numbers sort as texts do.
func revisionKey(n int) string { return fmt.Sprintf("%s%08d.json", revisionsFolder, n) }

// revisionNumber is the number of the revision with a key, or 0.
func revisionNumber(key string) int {
	digits, ok := strings.CutPrefix(key, revisionsFolder)
	digits, isJSON := strings.CutSuffix(digits, ".json")
	n, err := strconv.Atoi(digits)
	if !ok || !isJSON || err != nil || n < 1 {
		return 0
	}
	return n
}

// Append records a change of the contents that was made under a lease. It fills in
// number, time, holder, version and spec, and returns the number. It checks that the
// lease is still held.
func (s *Store) Append(ctx context.Context, lease *Lease, c *Contents, r Revision) (int, error) {
	if err := r.hold(c); err != nil {
		return 0, err
	}
	lease.mu.Lock()
	r.Holder, r.Fence = lease.state.Holder, lease.state.Fence
	lease.mu.Unlock()
	var numbers []int
	reads, reading := errgroup.WithContext(ctx)
	reads.Go(func() error { return lease.Check(reading) })
	reads.Go(func() (err error) {
		numbers, err = s.Revisions(reading, c.Spec.Name)
		return err
	})
	if err := reads.Wait(); err != nil {
		return 0, err
	}
	n, err := s.record(ctx, c.Spec.Name, slices.Max(append(numbers, 0))+1, r)
	if err == nil {
		lease.recorded()
	}
	return n, err
}

// hold puts the objects of a cluster into the revision.
func (r *Revision) hold(c *Contents) error {
	spec, err := compat.Encode(api.V1Alpha2, c.objects()...)
	r.Spec, r.SpecDigest = string(spec), store.Digest(spec)
	return err
}

// objects lists the objects of a cluster; there are none in nil.
func (c *Contents) objects() []api.Object {
	if c == nil {
		return nil
	}
	out := []api.Object{c.Spec}
	for _, g := range c.Groups {
		out = append(out, g)
	}
	for _, h := range c.Hosts {
		out = append(out, h)
	}
	return append(out, c.Additional...)
}

// record writes a revision under the first number from n on that nobody has taken, and
// returns that number.
func (s *Store) record(ctx context.Context, cluster string, n int, r Revision) (int, error) {
	r.Time, r.Version = s.cfg.Now().UTC(), s.cfg.Version
	for last := n + leaseTries; n < last; n++ {
		r.Number = n
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			_, err = s.own(cluster).Put(ctx, revisionKey(n), append(data, '\n'), store.PutOptions{IfAbsent: true, Private: true})
		}
		if err == nil {
			return n, nil
		}
		if !fault.Is(err, fault.Conflict) {
			return 0, fmt.Errorf("write revision %d of cluster %s: %w", n, cluster, err)
		}
	}
	return 0, fault.New(fault.Conflict, "write a revision of cluster %s: all numbers up to %d were taken by other commands", cluster, n-1)
}

// Revisions lists the numbers of a cluster's revisions, the newest first.
func (s *Store) Revisions(ctx context.Context, cluster string) ([]int, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	listing, err := collect(ctx, s.own(cluster), revisionsFolder)
	if err != nil {
		return nil, fmt.Errorf("list the revisions of cluster %s: %w", cluster, err)
	}
	var out []int
	for _, info := range slices.Backward(listing) {
		if n := revisionNumber(info.Key); n > 0 {
			out = append(out, n)
		}
	}
	return out, nil
}

// History reads all revisions of a cluster, some at a time, the newest first.
func (s *Store) History(ctx context.Context, cluster string) ([]Revision, error) {
	numbers, err := s.Revisions(ctx, cluster)
	if err != nil {
		return nil, err
	}
	out := make([]Revision, len(numbers))
	err = each(ctx, numbers, func(ctx context.Context, i, n int) (err error) {
		out[i], err = s.Revision(ctx, cluster, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Revision reads one revision; one that does not exist is an error of class fault.Gone.
func (s *Store) Revision(ctx context.Context, cluster string, n int) (Revision, error) {
	if err := checkName(cluster); err != nil {
		return Revision{}, err
	}
	data, _, err := s.own(cluster).Get(ctx, revisionKey(n))
	if err != nil {
		return Revision{}, fmt.Errorf("read revision %d of cluster %s: %w", n, cluster, err)
	}
	var r Revision
	if err := json.Unmarshal(data, &r); err != nil {
		return Revision{}, fault.Wrap(fault.Permanent, fmt.Errorf("read %s: %w", store.URL(s.own(cluster), revisionKey(n)), err),
			"the record is damaged; move the file away to see the others")
	}
	return r, nil
}
