package kops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/journal"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/store/clusterstore"
)

// leased runs f while this process holds the cluster's lease. When the lease is
// lost, the context that f gets ends.
func (c *Client) leased(ctx context.Context, cluster string, f func(context.Context, *clusterstore.Lease) error) (err error) {
	held, lease, err := c.store.Acquire(ctx, cluster, clusterstore.Holder(c.cfg.Holder))
	if other := (*clusterstore.Held)(nil); errors.As(err, &other) {
		return &Refused{err}
	}
	if err != nil {
		return err
	}
	over := c.cfg.Leased(cluster)
	defer func() {
		err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
		over()
	}()
	return f(held, lease)
}

// farewell is how long recording the result of a run may take, also of one that was stopped.
const farewell = 10 * time.Second

// apply carries out a plan, in the named phase, and records what came of it.
func (c *Client) apply(ctx context.Context, lease *clusterstore.Lease, p *prepared, what *plan.Plan, phase string) error {
	if what.Empty() {
		return nil
	}
	digest, err := what.Digest()
	if err != nil {
		return err
	}
	c.cfg.Phase(phase)
	failed := c.execute(ctx, lease.Hold, p, what)
	r := clusterstore.Revision{Plan: digest, Result: "done",
		Message: what.Summary().Applied()}
	if failed != nil {
		r.Result, r.Message = "failed", failed.Error()
	}
	if failed != nil && ctx.Err() != nil {
		r.Result = "interrupted"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if _, err := c.store.Append(ctx, lease, p.cluster.Contents, r); err != nil {
		return errors.Join(failed, fmt.Errorf("record the revision: %w", err))
	}
	return failed
}

// execute carries out a plan, with a journal in the cache folder. guard is that of exec.Executor.
func (c *Client) execute(ctx context.Context, guard func(context.Context) error, p *prepared, what *plan.Plan) error {
	out, err := c.journalFile(p.cluster.Spec.Name)
	if err != nil {
		return err
	}
	scopes := observe.Scopes(p.cluster.Spec.Name, p.graph, false)
	x := &exec.Executor{
		Client: p.clients(p.session.Client),
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			return p.observer().List(ctx, k, scopes(k.KindName()))
		},
		Journal: journal.New(out, c.cfg.Now), Limits: c.limits, Patience: p.patience, Guard: guard, Report: c.cfg.Report,
		Clock: exec.Clock{Now: c.cfg.Now, Sleep: c.cfg.Sleep, Jitter: c.jitter},
	}
	err = x.Run(ctx, what)
	if err != nil && ctx.Err() != nil {
		err = fault.Wrap(fault.Of(err), err, "what was done stays; the next update or deletion goes on from there")
	}
	return errors.Join(err, out.Close())
}

// journalFile opens the journal of a run; without a cache folder nothing is kept.
func (c *Client) journalFile(cluster string) (io.WriteCloser, error) {
	dir := c.cacheFolder("journal")
	if dir == "" {
		return nowhere{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the journal: %w", err)
	}
	name := fmt.Sprintf("%s-%s.jsonl", cluster, c.cfg.Now().UTC().Format("20060102T150405.000"))
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return f, nil
}

// nowhere takes a journal that is not kept.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

// jitter is a number in [0,1) from the client's source of randomness.
func (c *Client) jitter() float64 {
	var b [2]byte
	if _, err := io.ReadFull(c.cfg.Random, b[:]); err != nil {
		return 0.5
	}
	return float64(int(b[0])<<8|int(b[1])) / (1 << 16)
}

// applyDirect carries out what another tool cannot: the resources that are
// never part of its configuration.
func (c *Client) applyDirect(ctx context.Context, lease *clusterstore.Lease, p *prepared) error {
	return c.applyOnly(ctx, lease, p, slices.DeleteFunc(managedfile.Kinds(), func(k resource.Any) bool { return !k.KindDirect() }))
}

// applyOnly carries out what is to do about some kinds of files.
func (c *Client) applyOnly(ctx context.Context, lease *clusterstore.Lease, p *prepared, kinds []resource.Any) error {
	p.graph = p.graph.Select(func(n resource.Node) bool {
		return slices.ContainsFunc(kinds, func(k resource.Any) bool { return k.KindName() == n.Address.Kind })
	})
	p.kinds = kinds
	have, err := p.snapshot(ctx, false)
	if err != nil {
		return err
	}
	made, err := plan.Make(p.graph, have, p.kinds, plan.Options{})
	if err != nil {
		return err
	}
	return c.apply(ctx, lease, p, made, "write")
}
