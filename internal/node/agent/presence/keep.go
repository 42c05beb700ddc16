package presence

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"time"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/node/agent/ownnode"
	"kops.local/kops/internal/node/agent/report"
)

// ApplyUnit is the unit that changes the machine in place. It is at work until the change
// is done, or no longer asked for.
const ApplyUnit = "kops-apply.service"

// fileLook is how often it is looked whether the machine has become something else. It
// costs no call.
const fileLook = 5 * time.Second

// Keep watches the machine's node until the context ends: it checks at each change and, without
// changes or answers, after each pause. open makes a new check, because the kubelet's certificate
// may have changed; nil: there is none yet.
func Keep(ctx context.Context, open func() (*Check, error), pause func(context.Context) error, failed func(error)) error {
	for {
		c, err := open()
		if err == nil && c != nil {
			err = c.attend(ctx)
			c.Own.Close()
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// attend looks at the node, and then at its changes, until it is gone or the watch ends.
func (c *Check) attend(ctx context.Context) error {
	n, err := c.Once(ctx)
	if n == nil || err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	changes, ended := make(chan *ownnode.Node), make(chan error, 1)
	go func() { ended <- c.Own.Watch(watching, n, changes) }()
	tick := time.NewTicker(fileLook)
	defer tick.Stop()
	for {
		select {
		case n = <-changes:
			err = c.seen(ctx, n)
		case <-tick.C:
			err = c.tell(ctx, n)
		case err := <-ended:
			stop()
			return err
		}
		if err != nil {
			stop()
			return errors.Join(err, ignoreCanceled(<-ended))
		}
	}
}

// ignoreCanceled is the error of a watch that was not ended here.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// tell has the node say what the machine runs, and which certificates it holds.
func (c *Check) tell(ctx context.Context, n *ownnode.Node) error {
	now := map[string]string{}
	if running, there := c.Running(); there {
		now[labels.NodeConfig] = running
	}
	if held := c.certificates(); len(held) > 0 {
		now[labels.Certificates] = labels.Write(held)
	}
	maps.DeleteFunc(now, func(name, value string) bool { return n.Metadata.Annotations[name] == value })
	if len(now) == 0 {
		return nil
	}
	if err := c.Own.Annotate(ctx, n, now); err != nil {
		return err
	}
	if n.Metadata.Annotations == nil {
		n.Metadata.Annotations = map[string]string{}
	}
	maps.Copy(n.Metadata.Annotations, now) // until its change is seen
	return nil
}

// certificates returns the certificates of the machine's report.
func (c *Check) certificates() []report.Certificate {
	text, err := os.ReadFile(filepath.Join(c.Root, report.File))
	if err != nil {
		return nil // there is none yet
	}
	r, err := report.Parse(text)
	if err != nil {
		return nil // a nodeup of another version wrote it, and writes it again
	}
	return r.Certificates
}

// Running is labels.Running as the machine has noted it, if it has become anything yet.
func (c *Check) Running() (text string, there bool) {
	noted, err := os.ReadFile(filepath.Join(c.Root, paths.Running))
	return string(bytes.TrimSpace(noted)), err == nil
}

// obey starts the change that the node asks for and that is not done.
func (c *Check) obey(ctx context.Context, n *ownnode.Node) error {
	if _, pending := Asked(n); !pending {
		return nil
	}
	return c.Systemd.Start(ctx, ApplyUnit, false)
}

// Asked returns what a node asks its machine to become, and whether that is not done. What
// cannot be read asks nothing.
func Asked(n *ownnode.Node) (asked labels.Apply, pending bool) {
	asked, _, err := labels.Read[labels.Apply](n.Metadata.Annotations, labels.ApplyConfig)
	if err != nil || asked.Hash == "" || asked.Nonce == "" {
		return asked, false
	}
	done, _, err := labels.Read[labels.Applied](n.Metadata.Annotations, labels.ApplyResult)
	return asked, err != nil || done.Nonce != asked.Nonce || !done.Done
}
