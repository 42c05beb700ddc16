package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/ownnode"
	"kops.local/kops/internal/node/agent/presence"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
)

const (
	// nodePause is how often a missing or unreachable node is checked; nodeSpread keeps
	// machines from checking all at once.
	nodePause, nodeSpread = 6 * time.Second, 4 * time.Second
	// firstPause is the pause before a failed change is retried; it doubles up to maxPause.
	firstPause, maxPause = 10 * time.Second, 5 * time.Minute
	// answerPause is the pause before the API is called again, for up to answerPatience: on a
	// control plane its own server may be starting.
	answerPause, answerPatience = 2 * time.Second, 10 * time.Minute
	// maxError limits the error text in a node's annotation, in bytes.
	maxError = 1000
)

// check returns the check of the machine's node, or nil if the machine has not joined.
func (o Options) check(systemd host.Systemd) (*presence.Check, error) {
	own, err := ownnode.Open(o.Root, node.KubeletKubeconfig)
	if own == nil || err != nil {
		return nil, err
	}
	tell := func(line string) { fmt.Fprintf(o.Err, "<5>%s\n", line) } //nolint:errcheck // the journal's priority "notice"; a failed write cannot be reported
	return &presence.Check{Root: o.Root, OwnNode: own, Systemd: systemd, Now: o.Clock.Now, Log: tell}, nil
}

// watchNode looks after the machine's node until the program ends. It touches only the
// kubelet, so it does not wait for a nodeup that is running.
func (o Options) watchNode(ctx context.Context) error {
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	last := ""
	failed := func(err error) {
		if now := withoutVolatile(err.Error()); now != last {
			last = now
			fmt.Fprintf(o.Err, "<5>cannot read the node; trying again: %v\n", err) //nolint:errcheck // a failed write cannot be reported
		}
	}
	pause := func(ctx context.Context) error { return o.Clock.Sleep(ctx, nodePause+rand.N(nodeSpread)) }
	go o.recordDownParts(ctx, systemd)
	return presence.Keep(ctx, func() (*presence.Check, error) { return o.check(systemd) }, pause, failed)
}

// apply changes the machine in place until it matches its node's request. The request is
// read before each attempt, so that another request replaces one that fails.
func (o Options) apply(ctx context.Context, boot []byte) error {
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	for tries, nonce := 0, ""; ; tries++ {
		asked, pending, err := o.readRequest(ctx, systemd)
		if err != nil || !pending {
			return err
		}
		if asked.Nonce != nonce {
			tries, nonce = 0, asked.Nonce
			if err := o.recordResult(ctx, systemd, labels.Applied{Nonce: nonce}); err != nil {
				return err
			}
		}
		phase, failure := o.applyOnce(ctx, systemd, boot, asked.Hash)
		if err := o.recordResult(ctx, systemd, resultOf(nonce, phase, failure)); err != nil || failure == nil {
			return err
		}
		fmt.Fprintf(o.Err, "nodeup: the change in place failed; trying again: %v\n", failure) //nolint:errcheck // a failed write cannot be reported
		if err := o.awaitRetry(ctx, systemd, nonce, min(firstPause<<min(tries, 10), maxPause)); err != nil {
			return err
		}
	}
}

// resultOf returns what a node reports about an attempt.
func resultOf(nonce, phase string, failure error) labels.Applied {
	if failure == nil {
		return labels.Applied{Nonce: nonce, Done: true}
	}
	text := failure.Error()
	if remedy := fault.Remedy(failure); remedy != "" {
		text += "; " + remedy
	}
	text = report.Public(text)
	return labels.Applied{Nonce: nonce, Error: text[:min(len(text), maxError)], Phase: phase}
}

// applyOnce is one attempt. An error comes with the name of the phase that failed.
func (o Options) applyOnce(ctx context.Context, systemd host.Systemd, boot []byte, hash string) (string, error) {
	a, done, err := o.agent(ctx)
	if err != nil {
		return agent.PhaseIdentify, err
	}
	defer done()
	release, err := lock(o.Root)
	if err != nil {
		return agent.PhaseIdentify, err
	}
	defer release()
	ending := &orderlyStop{root: o.Root, clock: o.Clock}
	a.Machine.OnRewrite, a.Machine.BeforeRestart = ending.onRewrite, ending.beforeRestart
	return a.Apply(ctx, boot, hash, func(ctx context.Context) error {
		return o.withNode(systemd, func(c *presence.Check) error { return c.Ready(ctx, o.Clock.Sleep) })
	})
}

// withNode runs do on the machine's node, with the certificate that the kubelet has now.
func (o Options) withNode(systemd host.Systemd, do func(*presence.Check) error) error {
	c, err := o.check(systemd)
	if err != nil {
		return err
	}
	if c == nil {
		return errors.New("the machine is not a member of a cluster")
	}
	defer c.OwnNode.Close()
	return do(c)
}

// awaitRetry waits before the next attempt; it returns early if the node requests something else
// meanwhile.
func (o Options) awaitRetry(ctx context.Context, systemd host.Systemd, nonce string, d time.Duration) error {
	for end := o.Clock.Now().Add(d); o.Clock.Now().Before(end); {
		if err := o.Clock.Sleep(ctx, min(firstPause, d)); err != nil {
			return err
		}
		if asked, pending, err := o.readRequest(ctx, systemd); err == nil && (!pending || asked.Nonce != nonce) {
			return nil
		}
	}
	return nil
}

// readRequest reads the request of the machine's node; a missing node requests nothing.
func (o Options) readRequest(ctx context.Context, systemd host.Systemd) (asked labels.Apply, pending bool, err error) {
	err = o.retryWithNode(ctx, systemd, func(c *presence.Check) error {
		n, err := c.OwnNode.Get(ctx)
		if n != nil {
			asked, pending = presence.RequestedChange(n)
		}
		return err
	})
	return asked, pending, err
}

// recordResult records the result of a request on the machine's node.
func (o Options) recordResult(ctx context.Context, systemd host.Systemd, r labels.Applied) error {
	return o.retryWithNode(ctx, systemd, func(c *presence.Check) error {
		n, err := c.OwnNode.Get(ctx)
		if n == nil || err != nil {
			return err
		}
		text := map[string]string{labels.ApplyResult: labels.Write(r)}
		if running, there := c.Running(); there && r.Done {
			text[labels.NodeConfig] = running
		}
		return c.OwnNode.Annotate(ctx, n, text)
	})
}

// retryWithNode runs do on the machine's node, and retries it if it fails.
func (o Options) retryWithNode(ctx context.Context, systemd host.Systemd, do func(*presence.Check) error) error {
	for end := o.Clock.Now().Add(answerPatience); ; {
		err := o.withNode(systemd, do)
		if err == nil || o.Clock.Now().After(end) {
			return err
		}
		if serr := o.Clock.Sleep(ctx, answerPause); serr != nil {
			return err
		}
	}
}
