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
	// nodePause is how often the node is looked for while it is not there, or cannot be
	// looked at; machines do not look all at once.
	nodePause, nodeSpread = 6 * time.Second, 4 * time.Second
	// firstPause is before a change that failed is tried again; the pause doubles up to longestPause.
	firstPause, longestPause = 10 * time.Second, 5 * time.Minute
	// answerPause is before the API is called again, for answerPatience: on a control plane its
	// own server may be starting.
	answerPause, answerPatience = 2 * time.Second, 10 * time.Minute
	// longestError bounds what a node says of a failure, in bytes.
	longestError = 1000
)

// check returns what looks after the machine's node, or nil where the machine has not joined.
func (o Options) check(systemd host.Systemd) (*presence.Check, error) {
	own, err := ownnode.Open(o.Root, node.KubeletKubeconfig)
	if own == nil || err != nil {
		return nil, err
	}
	tell := func(line string) { fmt.Fprintf(o.Err, "<5>%s\n", line) } //nolint:errcheck // the journal's level "notice"; nothing could be told
	return &presence.Check{Root: o.Root, Own: own, Systemd: systemd, Now: o.Clock.Now, Tell: tell}, nil
}

// watchNode looks after the machine's node until the program ends. Nothing but the kubelet
// is touched, so it does not wait for a nodeup that is at work.
func (o Options) watchNode(ctx context.Context) error {
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	last := ""
	failed := func(err error) {
		if now := steady(err.Error()); now != last {
			last = now
			fmt.Fprintf(o.Err, "<5>the node cannot be looked at; trying again: %v\n", err) //nolint:errcheck // nothing could be told
		}
	}
	pause := func(ctx context.Context) error { return o.Clock.Sleep(ctx, nodePause+rand.N(nodeSpread)) }
	go o.upkeep(ctx, systemd)
	return presence.Keep(ctx, func() (*presence.Check, error) { return o.check(systemd) }, pause, failed)
}

// apply changes the machine in place until it is what its node asks for. What the node asks
// for is read before each try, so that another request takes the place of one that fails.
func (o Options) apply(ctx context.Context, boot []byte) error {
	systemd, err := host.Connect(ctx)
	if err != nil {
		return err
	}
	defer systemd.Close()
	for tries, nonce := 0, ""; ; tries++ {
		asked, pending, err := o.asked(ctx, systemd)
		if err != nil || !pending {
			return err
		}
		if asked.Nonce != nonce {
			tries, nonce = 0, asked.Nonce
			if err := o.answer(ctx, systemd, labels.Applied{Nonce: nonce}); err != nil {
				return err
			}
		}
		phase, failure := o.applyOnce(ctx, systemd, boot, asked.Hash)
		if err := o.answer(ctx, systemd, resultOf(nonce, phase, failure)); err != nil || failure == nil {
			return err
		}
		fmt.Fprintf(o.Err, "nodeup: the change in place is tried again: %v\n", failure) //nolint:errcheck // nothing could be told
		if err := o.await(ctx, systemd, nonce, min(firstPause<<min(tries, 10), longestPause)); err != nil {
			return err
		}
	}
}

// resultOf is what a node says of a try.
func resultOf(nonce, phase string, failure error) labels.Applied {
	if failure == nil {
		return labels.Applied{Nonce: nonce, Done: true}
	}
	text := failure.Error()
	if remedy := fault.Remedy(failure); remedy != "" {
		text += "; " + remedy
	}
	text = report.Public(text)
	return labels.Applied{Nonce: nonce, Error: text[:min(len(text), longestError)], Phase: phase}
}

// applyOnce is one try. An error names the phase that failed.
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
	ending := &ending{root: o.Root, clock: o.Clock}
	a.Machine.OnRewrite, a.Machine.BeforeRestart = ending.onRewrite, ending.beforeRestart
	return a.Apply(ctx, boot, hash, func(ctx context.Context) error {
		return o.with(systemd, func(c *presence.Check) error { return c.Ready(ctx, o.Clock.Sleep) })
	})
}

// with does something to the machine's node, with the certificate that the kubelet has now.
func (o Options) with(systemd host.Systemd, do func(*presence.Check) error) error {
	c, err := o.check(systemd)
	if err != nil {
		return err
	}
	if c == nil {
		return errors.New("the machine is not a member of a cluster")
	}
	defer c.Own.Close()
	return do(c)
}

// await waits before the next try, and less where something else is asked for meanwhile.
func (o Options) await(ctx context.Context, systemd host.Systemd, nonce string, d time.Duration) error {
	for end := o.Clock.Now().Add(d); o.Clock.Now().Before(end); {
		if err := o.Clock.Sleep(ctx, min(firstPause, d)); err != nil {
			return err
		}
		if asked, pending, err := o.asked(ctx, systemd); err == nil && (!pending || asked.Nonce != nonce) {
			return nil
		}
	}
	return nil
}

// asked reads what the machine's node asks for; one that is not there asks nothing.
func (o Options) asked(ctx context.Context, systemd host.Systemd) (asked labels.Apply, pending bool, err error) {
	err = o.insist(ctx, systemd, func(c *presence.Check) error {
		n, err := c.Own.Get(ctx)
		if n != nil {
			asked, pending = presence.Asked(n)
		}
		return err
	})
	return asked, pending, err
}

// answer has the machine's node say what became of a request.
func (o Options) answer(ctx context.Context, systemd host.Systemd, r labels.Applied) error {
	return o.insist(ctx, systemd, func(c *presence.Check) error {
		n, err := c.Own.Get(ctx)
		if n == nil || err != nil {
			return err
		}
		text := map[string]string{labels.ApplyResult: labels.Write(r)}
		if running, there := c.Running(); there && r.Done {
			text[labels.NodeConfig] = running
		}
		return c.Own.Annotate(ctx, n, text)
	})
}

// insist does something to the machine's node, again where it fails.
func (o Options) insist(ctx context.Context, systemd host.Systemd, do func(*presence.Check) error) error {
	for end := o.Clock.Now().Add(answerPatience); ; {
		err := o.with(systemd, do)
		if err == nil || o.Clock.Now().After(end) {
			return err
		}
		if serr := o.Clock.Sleep(ctx, answerPause); serr != nil {
			return err
		}
	}
}
