// Package presence looks after the machine's own node in the cluster.
//
// A kubelet registers its node only when it starts. If the node disappears while the kubelet runs
// (it was deleted, or etcd was restored from a backup older than the node), the machine is lost
// to its cluster until the kubelet is restarted: this package notices, and restarts it. A node
// that comes back may have a different range of pod addresses: the network configuration for the
// old range is removed first, so that no pod starts before the new configuration exists, and pods
// with addresses that are no longer routed are deleted, so that their controllers create
// replacements.
//
// It acts with the kubelet's own rights, and only on an answer from the API server, never because
// there is none.
package presence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/ownnode"
	"kops.local/kops/internal/node/host"
)

// Files of the machine, relative to its root: since when the node has been absent,
// and the ranges of pod addresses that it had when it was last seen.
const (
	absentFile = "/run/kops-presence/absent"
	rangesFile = "/var/lib/kops/pod-ranges"
)

// ofRange are the container runtime's network configurations that are generated from the node's
// ranges: for kops' routes, and from containerd's template. They are generated again after they
// are removed.
var ofRange = []string{"/etc/cni/net.d/10-kops.conflist", "/etc/cni/net.d/10-containerd-net.conflist"}

// kubelet is the unit that registers the node.
const kubelet = node.KubeletUnit

// settled is how long a kubelet must have run, and its node have been absent: a
// kubelet that has just started is about to register.
const settled = 25 * time.Second

// Check checks the machine's node.
type Check struct {
	// Root is the root of the machine's file system.
	Root    string
	OwnNode *ownnode.Client
	Systemd host.Systemd
	Now     func() time.Time
	// Log receives a line about each action.
	Log func(string)
}

// Once checks the node and repairs what it finds; it returns the node, or nil if there is
// none. The node must be absent in two successive calls before anything is done. An error
// means that the state could not be determined, and that nothing was done.
func (c *Check) Once(ctx context.Context) (*ownnode.Node, error) {
	n, err := c.OwnNode.Get(ctx)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, c.handleAbsent(ctx)
	}
	return n, c.handlePresent(ctx, n)
}

// handlePresent handles a node that exists.
func (c *Check) handlePresent(ctx context.Context, n *ownnode.Node) error {
	return errors.Join(c.clearAbsent(), c.ranges(ctx, n.Spec.PodCIDRs), c.annotateNode(ctx, n), c.startRequestedChange(ctx, n))
}

// handleAbsent restarts the kubelet if its node was absent last time, too.
func (c *Check) handleAbsent(ctx context.Context) error {
	states, err := c.Systemd.States(ctx, []string{kubelet})
	if err != nil {
		return err
	}
	s := states[kubelet]
	if !s.Running || s.Queued || c.Now().Sub(s.Started) < settled {
		return c.clearAbsent() // stopped on purpose, or about to register
	}
	file := filepath.Join(c.Root, absentFile)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600), os.Chtimes(file, c.Now(), c.Now()))
	}
	if err != nil || c.Now().Sub(info.ModTime()) < settled {
		return err
	}
	c.Log("the node " + c.OwnNode.Node + " is not in the cluster; restarting the kubelet to register it")
	for _, f := range ofRange {
		if err := host.RemoveAt(filepath.Join(c.Root, f)); err != nil {
			return err
		}
	}
	return errors.Join(c.clearAbsent(), c.Systemd.Start(ctx, kubelet, true))
}

// clearAbsent records that the node is not absent.
func (c *Check) clearAbsent() error { return host.RemoveAt(filepath.Join(c.Root, absentFile)) }

// ranges deletes the machine's pods whose addresses are not in the node's ranges,
// once after these have changed.
func (c *Check) ranges(ctx context.Context, now []string) error {
	if len(now) == 0 {
		return nil // the node is new and has no ranges yet
	}
	file, text := filepath.Join(c.Root, rangesFile), strings.Join(now, "\n")+"\n"
	before, err := os.ReadFile(file)
	if err == nil && string(before) == text {
		return nil
	}
	if err == nil {
		if err := c.removeStrays(ctx, parse(strings.Fields(string(before))), parse(now)); err != nil {
			return err // it is retried
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600))
}

// removeStrays deletes the machine's pods whose address is only in a former range.
func (c *Check) removeStrays(ctx context.Context, before, now []netip.Prefix) error {
	pods, err := c.OwnNode.Pods(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		address, err := netip.ParseAddr(p.Status.PodIP)
		in := func(r netip.Prefix) bool { return r.Contains(address) }
		if err != nil || p.Spec.HostNetwork || slices.ContainsFunc(now, in) || !slices.ContainsFunc(before, in) {
			continue
		}
		c.Log(fmt.Sprintf("the pod %s/%s has the address %s, which is no longer reachable; deleting it", p.Metadata.Namespace, p.Metadata.Name, address))
		if _, err := c.OwnNode.Call(ctx, http.MethodDelete, "/api/v1/namespaces/"+p.Metadata.Namespace+"/pods/"+p.Metadata.Name, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func parse(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p)
		}
	}
	return out
}
