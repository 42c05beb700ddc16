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

// ApplyUnit is the unit that changes the machine in place. It runs until the change is
// done, or no longer requested.
const ApplyUnit = "kops-apply.service"

// fileLook is how often the machine's own records are checked for changes. That takes
// no API call.
const fileLook = 5 * time.Second

// Keep watches the machine's node until the context ends: it checks on each change and, without
// changes or answers, after each pause. open makes a new check, because the kubelet's certificate
// may have changed; it returns nil if there is none yet.
func Keep(ctx context.Context, open func() (*Check, error), pause func(context.Context) error, failed func(error)) error {
	for {
		c, err := open()
		if err == nil && c != nil {
			err = c.followNode(ctx)
			c.OwnNode.Close()
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// followNode checks the node, and then follows its changes, until it is deleted or the watch ends.
func (c *Check) followNode(ctx context.Context) error {
	n, err := c.Once(ctx)
	if n == nil || err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	changes, ended := make(chan *ownnode.Node), make(chan error, 1)
	go func() { ended <- c.OwnNode.Watch(watching, n, changes) }()
	tick := time.NewTicker(fileLook)
	defer tick.Stop()
	for {
		select {
		case n = <-changes:
			err = c.handlePresent(ctx, n)
		case <-tick.C:
			err = c.annotateNode(ctx, n)
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

// ignoreCanceled returns the error of a watch, or nil if the watch was canceled here.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// annotateNode annotates the node with what the machine runs and which certificates it has.
func (c *Check) annotateNode(ctx context.Context, n *ownnode.Node) error {
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
	if err := c.OwnNode.Annotate(ctx, n, now); err != nil {
		return err
	}
	if n.Metadata.Annotations == nil {
		n.Metadata.Annotations = map[string]string{}
	}
	maps.Copy(n.Metadata.Annotations, now) // until the watch delivers the change
	return nil
}

// certificates returns the certificates in the machine's report.
func (c *Check) certificates() []report.Certificate {
	text, err := os.ReadFile(filepath.Join(c.Root, report.File))
	if err != nil {
		return nil // there is none yet
	}
	r, err := report.Parse(text)
	if err != nil {
		return nil // written by another version of nodeup, which writes it again
	}
	return r.Certificates
}

// Running returns labels.Running as the machine has recorded it, if it has been recorded yet.
func (c *Check) Running() (text string, there bool) {
	noted, err := os.ReadFile(filepath.Join(c.Root, paths.Running))
	return string(bytes.TrimSpace(noted)), err == nil
}

// startRequestedChange starts the change that the node requests, unless it is done.
func (c *Check) startRequestedChange(ctx context.Context, n *ownnode.Node) error {
	if _, pending := RequestedChange(n); !pending {
		return nil
	}
	return c.Systemd.Start(ctx, ApplyUnit, false)
}

// RequestedChange returns the change that a node requests of its machine, and whether it is pending.
// An unreadable request counts as none.
func RequestedChange(n *ownnode.Node) (asked labels.Apply, pending bool) {
	asked, _, err := labels.Read[labels.Apply](n.Metadata.Annotations, labels.ApplyConfig)
	if err != nil || asked.Hash == "" || asked.Nonce == "" {
		return asked, false
	}
	done, _, err := labels.Read[labels.Applied](n.Metadata.Annotations, labels.ApplyResult)
	return asked, err != nil || done.Nonce != asked.Nonce || !done.Done
}
