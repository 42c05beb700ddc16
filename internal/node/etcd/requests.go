package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// readRequest reads the current request, and the answer so far. Damaged objects count as missing:
// a maintenance request must not keep the managers from their work.
func readRequest(ctx context.Context, s store.Store) (*Request, *Answer, error) {
	r, err := readSound[Request](ctx, s, askedKey)
	if r == nil || err != nil {
		return nil, nil, err
	}
	a, err := ReadAnswer(ctx, s)
	return r, a, err
}

// Ask requests a task from the managers of a cluster, which they start within half a
// minute. If another task is already requested, the error is of class fault.Conflict.
func Ask(ctx context.Context, s store.Store, r Request) error {
	var err error
	for range 3 { // another request may be concluded between reading and writing
		var free store.PutOptions
		if free, err = putCondition(ctx, s); err != nil {
			break
		}
		if err = write(ctx, s, askedKey, r, free); !fault.Is(err, fault.Conflict) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("request the task %s: %w", r.Task, err)
	}
	return nil
}

// putCondition returns the condition for writing a request: there is none, or it replaces one
// that is done and about to be removed.
func putCondition(ctx context.Context, s store.Store) (store.PutOptions, error) {
	other, version, err := read[Request](ctx, s, askedKey)
	if err != nil || other == nil {
		return store.PutOptions{IfAbsent: true}, err
	}
	a, err := ReadAnswer(ctx, s)
	if err == nil && (a == nil || a.Request != other.ID || !a.Done) {
		err = fault.Wrap(fault.Conflict, fmt.Errorf("another task, %s, has been requested since %s", other.Task, other.At.UTC().Format(time.RFC3339)),
			"wait until it is done; if it is not being handled, remove "+RequestURL(s))
	}
	return store.PutOptions{IfVersion: version}, err
}

// RequestURL returns the URL of the object that requests a task.
func RequestURL(s store.Store) string { return store.URL(s, askedKey) }

// ReadAnswer reads the last answer to any request; nil for none.
func ReadAnswer(ctx context.Context, s store.Store) (*Answer, error) {
	return readSound[Answer](ctx, s, answerKey)
}

// WriteAnswer records the progress of a request, and removes the request once it is done.
func WriteAnswer(ctx context.Context, s store.Store, a Answer) error {
	err := write(ctx, s, answerKey, a, store.PutOptions{})
	if err == nil && a.Done {
		err = deleteRequest(ctx, s, a.Request)
	}
	if err != nil {
		return fmt.Errorf("answer the request %s: %w", a.Request, err)
	}
	return nil
}

// deleteRequest removes a request, unless another has replaced it.
func deleteRequest(ctx context.Context, s store.Store, id string) error {
	r, version, err := read[Request](ctx, s, askedKey)
	if err != nil || r == nil || r.ID != id {
		return err
	}
	err = s.Delete(ctx, askedKey, store.DeleteOptions{IfVersion: version})
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// Status is the report of the managers' leader about its cluster. It is the object .kops/status,
// written when it changes, and at least every StatusLife.
type Status struct {
	At time.Time `json:"at"`
	// Leader is the peer whose manager wrote this.
	Leader string `json:"leader"`
	// Wanted is the number of members in the spec; 0 if there is none.
	Wanted int `json:"wanted"`
	// Waiting is what keeps the cluster from matching its spec; empty for nothing.
	Waiting string `json:"waiting,omitempty"`
	// Members are etcd's; empty if no majority of them answers.
	Members []MemberStatus `json:"members"`
}

// MemberStatus is a member in a Status.
type MemberStatus struct {
	Name    string   `json:"name"`
	ID      string   `json:"id"`
	Healthy bool     `json:"healthy"`
	Leader  bool     `json:"leader,omitempty"`
	Learner bool     `json:"learner,omitempty"`
	Version string   `json:"etcdVersion,omitempty"`
	Size    int64    `json:"size,omitempty"`
	InUse   int64    `json:"inUse,omitempty"`
	Quota   int64    `json:"quota,omitempty"`
	Alarms  []string `json:"alarms,omitempty"`
	// Errors are the errors that the member reports.
	Errors []string `json:"errors,omitempty"`
}

// StatusLife is how long a Status is valid: a leader writes another one before.
const StatusLife = 10 * time.Minute

// ReadStatus reads the last status from a cluster's managers; nil for none.
func ReadStatus(ctx context.Context, s store.Store) (*Status, error) {
	return readSound[Status](ctx, s, statusKey)
}

// WriteStatus records the status of a cluster.
func WriteStatus(ctx context.Context, s store.Store, st Status) error {
	if err := write(ctx, s, statusKey, st, store.PutOptions{}); err != nil {
		return fmt.Errorf("report the state of the etcd cluster: %w", err)
	}
	return nil
}

// NewStatus returns the status of a cluster.
func NewStatus(now time.Time, leader string, wanted int, waiting string, members []Member) Status {
	st := Status{At: now.UTC(), Leader: leader, Wanted: wanted, Waiting: waiting, Members: []MemberStatus{}}
	for _, m := range members {
		st.Members = append(st.Members, MemberStatus{Name: m.Name, ID: m.ID, Healthy: m.Healthy, Leader: m.Leader, Learner: m.Learner, Version: m.Version,
			Size: m.Size, InUse: m.InUse, Quota: m.Limit(), Alarms: m.Alarms, Errors: m.Errors})
	}
	slices.SortFunc(st.Members, func(a, b MemberStatus) int { return cmp.Or(compare(a.Name, b.Name), compare(a.ID, b.ID)) })
	return st
}

// IsNews reports whether a status contains news compared with another one. A change of
// less than a quarter in the size of a database, or in the used part of it, is not news.
func (st Status) IsNews(before *Status) bool {
	if before == nil || st.At.Sub(before.At) >= StatusLife || st.At.Before(before.At) {
		return true
	}
	if st.withoutSizes() != before.withoutSizes() {
		return true
	}
	for i, m := range st.Members { // which are the same
		if hasResized(before.Members[i].Size, m.Size) || hasResized(before.Members[i].InUse, m.InUse) {
			return true
		}
	}
	return false
}

// sizeStep is the smallest change of a size that is worth a write, in bytes.
const sizeStep = 256 << 10

// hasResized reports whether a size has changed by at least a quarter and at least sizeStep.
func hasResized(before, now int64) bool {
	change := max(now-before, before-now)
	return change >= sizeStep && change >= before/4
}

// withoutSizes returns a status without sizes, as text.
func (st Status) withoutSizes() string {
	st.At = time.Time{}
	members := make([]MemberStatus, len(st.Members))
	for i, m := range st.Members {
		m.Size, m.InUse = 0, 0
		members[i] = m
	}
	st.Members = members
	text, _ := json.Marshal(st) // it contains only strings and numbers
	return string(text)
}
