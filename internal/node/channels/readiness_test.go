package channels

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/node/bootstrap"
)

func testReadiness(t *testing.T, c *cluster) {
	addon := api.Addon{Name: "ready.addons.k8s.io"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	loop := &Loop{Applier: c.Applier, URLs: []string{c.url}, Interval: time.Minute}
	steps := &stepClock{}
	c.Clock = steps
	var codes []int
	steps.sleep = func(d time.Duration) { // between two checks
		codes = append(codes, status(loop), int(d/time.Second))
		switch len(codes) / 2 {
		case 1: // there was no channel
			c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "ready", "1")})
		case 3: // of the twelve checks in an interval
			c.publish(t, []api.Addon{{Name: "broken.io"}}, map[string]string{"broken.io": "kind: x"})
		case 4:
			stop()
		}
	}
	if before := status(loop); before != 503 {
		t.Errorf("before the first pass: %d", before)
	}
	if err := loop.Run(ctx); err == nil {
		t.Error("the loop ended by itself")
	}
	if want := []int{503, 1, 200, 5, 200, 5, 503, 5}; !slices.Equal(codes, want) {
		t.Errorf("status and wait at each look: %v, want %v", codes, want)
	}
}

func labelsDoNotWait(t *testing.T, c *cluster) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c.Clock, c.Settle = bootstrap.SystemClock(), time.Minute
	addon := api.Addon{Name: "never.addons.k8s.io"}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: never, namespace: kube-system}\n" +
		"spec: {selector: {matchLabels: {a: never}}, template: {metadata: {labels: {a: never}}, spec: {containers: [{name: x, image: 'x:1'}]}}}\n"})
	loop := &Loop{Applier: c.Applier, URLs: []string{c.url}, Interval: time.Minute, Node: "late", Labels: map[string]string{"example.com/a": "b"}}
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	waitFor := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	waitFor("the add-on is not applied", func() bool { return c.get(t, "apps/deployments", "kube-system", "never") != nil })
	c.node(t, "late", nil) // the pass waits for pods that never run
	waitFor("the node has no label", func() bool { return c.get(t, "nodes", "", "late").GetLabels()["example.com/a"] == "b" })
	if got := status(loop); got != 503 {
		t.Errorf("ready without add-ons: %d", got)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
