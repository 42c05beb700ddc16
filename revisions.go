package kops

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// Revision is one change of a cluster: of its objects, of its keys, or of what was applied
// to its platform.
type Revision struct {
	Number  int       `json:"number"`
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	Version string    `json:"version"`
	Command string    `json:"command"`
	// Result is done, failed or interrupted for an operation, and stored for a change of the
	// objects, which an update applies.
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
	// Changes are the fields changed by a change of the objects.
	Changes []RevisionChange `json:"changes,omitempty"`
	// Spec is the cluster with its groups and additional objects after the change, in
	// v1alpha2; it is empty in a list of revisions.
	Spec string `json:"spec,omitempty"`
}

// RevisionChange is a field that was changed, or an object that was created, deleted or rewritten.
type RevisionChange struct {
	// Object is Cluster, or kind and name: InstanceGroup/nodes.
	Object string `json:"object"`
	// Field is the path in v1alpha2; "" means the whole object, and Whole describes what happened
	// to it.
	Field string `json:"field,omitempty"`
	Whole string `json:"whole,omitempty"`
}

// String returns the change in words: InstanceGroup/nodes spec.maxSize.
func (c RevisionChange) String() string {
	return c.Object + " " + c.Field + c.Whole // one of the two is empty
}

// Revisions lists the changes of a cluster, newest first.
func (s Clusters) Revisions(ctx context.Context, cluster string) ([]Revision, error) {
	if _, err := s.c.Clusters().Get(ctx, cluster); err != nil {
		return nil, err
	}
	history, err := s.c.store.History(ctx, cluster)
	if err != nil {
		return nil, err
	}
	out := make([]Revision, len(history))
	for i, r := range history {
		out[i] = revision(r)
		out[i].Spec = ""
	}
	return out, nil
}

// Revision reads one change of a cluster, with the objects after it. If it does not exist, the
// error is of class Gone.
func (s Clusters) Revision(ctx context.Context, cluster string, n int) (*Revision, error) {
	r, err := s.c.revisionAt(ctx, cluster, n)
	if err != nil {
		return nil, err
	}
	out := revision(r)
	return &out, nil
}

func (c *Client) revisionAt(ctx context.Context, cluster string, n int) (clusterstore.Revision, error) {
	r, err := c.store.Revision(ctx, cluster, n)
	if fault.Is(err, fault.Gone) {
		err = fault.Wrap(fault.Gone, fmt.Errorf("cluster %s has no revision %d", cluster, n), "to list them: kops get revisions --name "+cluster)
	}
	return r, err
}

func revision(r clusterstore.Revision) Revision {
	out := Revision{Number: r.Number, Time: r.Time, Who: r.User + "@" + r.Host, Version: r.Version,
		Command: r.Command, Result: r.Result, Message: r.Message, Spec: r.Spec}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, RevisionChange(c))
	}
	return out
}
