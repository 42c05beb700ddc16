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
	// Plan is the digest of the plan that was carried out, as the planner formats it; only
	// applied changes have one.
	Plan string `json:"plan,omitempty"`
	// Result is "done", "failed" or "interrupted", and Message has the details. For a change
	// of the objects alone it is Stored.
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
	// Changes are the fields that differ after a change of the objects.
	Changes []Change `json:"changes,omitempty"`
	// LastApplied is set for a revision that was not fully applied: the number of the newest fully
	// applied revision before it, or 0 if there is none or it is unknown.
	LastApplied int `json:"lastApplied,omitempty"`
	// SpecDigest is the digest of Spec, which contains the cluster, its groups and the
	// additional objects in one v1alpha2 file.
	SpecDigest string `json:"specDigest"`
	Spec       string `json:"spec,omitempty"`
}

// Stored is the result of a change of the objects that was only stored, not applied.
const Stored = "stored"

// Change is one changed field of an object.
type Change struct {
	// Object is Cluster, or kind and name: InstanceGroup/nodes.
	Object string `json:"object"`
	// Field is its path in v1alpha2; "" if the whole object is affected, see Whole.
	Field string `json:"field,omitempty"`
	// Whole is "created", "deleted", or "rewritten": the same fields in another text.
	Whole string `json:"whole,omitempty"`
}

// Applied reports whether the objects of the revision were fully applied.
func (r *Revision) Applied() bool { return r.Plan != "" && r.Result == "done" }

// CreatedHere reports whether this program created a cluster: the cluster's first revision then
// records its creation.
func (s *Store) CreatedHere(ctx context.Context, cluster string) (bool, error) {
	r, err := s.Revision(ctx, cluster, 1)
	if fault.Is(err, fault.Gone) {
		return false, nil
	}
	return slices.Contains(r.Changes, Change{Object: api.KindCluster, Whole: "created"}), err
}

// revisionKey returns the key of a revision in our own folder: keys sort like their numbers.
func revisionKey(n int) string { return fmt.Sprintf("%s%08d.json", revisionsFolder, n) }

// revisionNumber returns the number of the revision with a key, or 0.
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
	if err := r.setSpec(c); err != nil {
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
	if !r.Applied() {
		if last, _, err := s.LastApplied(ctx, c.Spec.Name, numbers); err == nil && last != nil {
			r.LastApplied = last.Number
		}
	}
	n, err := s.record(ctx, c.Spec.Name, slices.Max(append(numbers, 0))+1, r)
	if err == nil {
		lease.markRecorded()
	}
	return n, err
}

// setSpec sets the revision's spec from the objects of a cluster.
func (r *Revision) setSpec(c *Contents) error {
	spec, err := compat.Encode(api.V1Alpha2, c.objects()...)
	r.Spec, r.SpecDigest = string(spec), store.Digest(spec)
	return err
}

// objects lists the objects of a cluster; nil contents have none.
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

// record writes a revision under the first unused number from n on, and returns that number.
func (s *Store) record(ctx context.Context, cluster string, n int, r Revision) (int, error) {
	r.Time, r.Version = s.cfg.Now().UTC(), s.cfg.Version
	for last := n + leaseTries; n < last; n++ {
		r.Number = n
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			_, err = s.privateFolder(cluster).Put(ctx, revisionKey(n), append(data, '\n'), store.PutOptions{IfAbsent: true, Private: true})
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
	listing, err := collect(ctx, s.privateFolder(cluster), revisionsFolder)
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

// History reads all revisions of a cluster, several at a time, the newest first.
func (s *Store) History(ctx context.Context, cluster string) ([]Revision, error) {
	numbers, err := s.Revisions(ctx, cluster)
	if err != nil {
		return nil, err
	}
	out := make([]Revision, len(numbers))
	err = forEach(ctx, numbers, func(ctx context.Context, i, n int) (err error) {
		out[i], err = s.Revision(ctx, cluster, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Revision reads one revision; if it does not exist, the error has class fault.Gone.
func (s *Store) Revision(ctx context.Context, cluster string, n int) (Revision, error) {
	if err := checkName(cluster); err != nil {
		return Revision{}, err
	}
	data, _, err := s.privateFolder(cluster).Get(ctx, revisionKey(n))
	if err != nil {
		return Revision{}, fmt.Errorf("read revision %d of cluster %s: %w", n, cluster, err)
	}
	var r Revision
	if err := json.Unmarshal(data, &r); err != nil {
		return Revision{}, fault.Wrap(fault.Permanent, fmt.Errorf("read %s: %w", store.URL(s.privateFolder(cluster), revisionKey(n)), err),
			"the record is damaged; move the file away to see the others")
	}
	return r, nil
}
