package precheck

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/spec/versions"
)

// Look asks an API server, after seen, for everything else that Judge needs, except the input of
// skipped checks. What cannot be seen is in the result; an error means that the
// server does not answer at all.
func Look(ctx context.Context, c kubernetes.Interface, seen health.Seen, in Input) (Seen, error) {
	s := Seen{Seen: seen, Failed: map[string]error{}}
	info, err := c.Discovery().ServerVersion()
	if err != nil {
		return s, fmt.Errorf("ask the API server for its version: %w", err)
	}
	if s.Version, err = versions.ParseVersion(info.GitVersion); err != nil {
		return s, fmt.Errorf("the version of the API server: %w", err)
	}
	parts := []part{
		{[]string{RemovedAPIs, Etcd}, func() error { return lookAtRequests(ctx, c, s.servers(), &s) }},
		{[]string{RemovedAPIs}, func() error { return lookAtWritten(ctx, c, in.Target, &s) }},
		{[]string{Budgets}, func() error { return lookAtBudgets(ctx, c, &s) }},
		{[]string{Webhooks}, func() error { return lookAtWebhooks(ctx, c, &s) }},
		{[]string{APIServices}, func() error { return lookAtAPIServices(ctx, c, &s) }},
	}
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		if !slices.ContainsFunc(p.checks, func(name string) bool { return !in.skips(name) }) {
			continue
		}
		all.Go(func() { errs[i] = p.look() })
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

// part is one question, and the checks that need its answer. Each fills fields of its own.
type part struct {
	checks []string
	look   func() error
}

// servers is how many nodes have an API server.
func (s *Seen) servers() int {
	n := 0
	for i := range s.Nodes {
		if serves(&s.Nodes[i]) {
			n++
		}
	}
	return n
}
