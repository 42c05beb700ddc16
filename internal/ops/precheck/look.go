package precheck

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/spec/versions"
)

// Observe queries an API server for everything that Judge needs and seen does not have, except the
// input of skipped checks. What could not be observed is recorded in the result; an error means
// that the server does not respond at all.
func Observe(ctx context.Context, c *kubeclient.Client, seen health.Observation, in Input) (Observation, error) {
	s := Observation{Observation: seen, Failed: map[string]error{}}
	info, err := c.ServerVersion(ctx)
	if err != nil {
		return s, fmt.Errorf("ask the API server for its version: %w", err)
	}
	if s.Version, err = versions.ParseVersion(info.GitVersion); err != nil {
		return s, fmt.Errorf("the version of the API server: %w", err)
	}
	parts := []part{
		{[]string{RemovedAPIs, Etcd}, func() error { return observeRequests(ctx, c, s.servers(), &s) }},
		{[]string{RemovedAPIs}, func() error { return observeWritten(ctx, c, in.Target, &s) }},
		{[]string{Budgets}, func() error { return observeBudgets(ctx, c, &s) }},
		{[]string{Webhooks}, func() error { return observeWebhooks(ctx, c, &s) }},
		{[]string{APIServices}, func() error { return observeAPIServices(ctx, c, &s) }},
	}
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		if !slices.ContainsFunc(p.checks, func(name string) bool { return !in.isSkipped(name) }) {
			continue
		}
		all.Go(func() { errs[i] = p.observe() })
	}
	all.Wait()
	for i, p := range parts {
		for _, name := range p.checks {
			if errs[i] != nil && s.Failed[name] == nil {
				s.Failed[name] = errs[i]
			}
		}
	}
	return s, ctx.Err()
}

// part is a query, and the checks that need its result. Each sets fields of its own.
type part struct {
	checks  []string
	observe func() error
}

// servers returns how many nodes have an API server.
func (s *Observation) servers() int {
	n := 0
	for i := range s.Nodes {
		if isControlPlane(&s.Nodes[i]) {
			n++
		}
	}
	return n
}
