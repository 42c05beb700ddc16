// Package presence looks after the machine's own node in the cluster.
//
// A kubelet registers its node when it starts, and only then. When the node is gone while the
// kubelet runs (somebody deleted it, or etcd was restored from a backup older than the node), the
// machine is lost to its cluster until the kubelet is restarted: this package notices, and
// restarts it. A node that comes back may have another range of pod addresses: the network's
// configuration of the old range is removed first, so that no pod starts before the new
// configuration is there, and pods with addresses that are no longer routed are deleted, so that
// their controllers create others.
//
// It acts with the kubelet's own rights, upon an answer of the API server, never for
// want of one.
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

// Files of the machine, below its root: since when the node is absent, and the ranges
// of pod addresses that it had when it was last seen.
const (
	absentFile = "/run/kops-presence/absent"
	rangesFile = "/var/lib/kops/pod-ranges"
)

// ofRange are the container runtime's network configurations that are made from the node's ranges:
// for kops' routes, and from containerd's template. Their makers create them again.
var ofRange = []string{"/etc/cni/net.d/10-kops.conflist", "/etc/cni/net.d/10-containerd-net.conflist"}

// kubelet is the unit that registers the node.
const kubelet = node.KubeletUnit

// settled is how long a kubelet must have run, and its node be absent: one that has
// just started is about to register.
const settled = 25 * time.Second

// Check is one look at the machine's node.
type Check struct {
	// Root is where the machine's file system begins.
	Root    string
	Own     *ownnode.Client
	Systemd host.Systemd
	Now     func() time.Time
	// Tell receives a line about each action.
	Tell func(string)
}

// Once looks at the node, and heals what it finds; it returns the node, or nil where there
// is none. The node's absence must last over two calls. An error says that nothing could be
// found out, and nothing was done.
func (c *Check) Once(ctx context.Context) (*ownnode.Node, error) {
	n, err := c.Own.Get(ctx)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, c.absent(ctx)
	}
	return n, c.seen(ctx, n)
}

// seen handles a node that exists.
func (c *Check) seen(ctx context.Context, n *ownnode.Node) error {
	return errors.Join(c.forget(), c.ranges(ctx, n.Spec.PodCIDRs), c.tell(ctx, n), c.obey(ctx, n))
}

// absent restarts the kubelet when its node was absent before, too.
func (c *Check) absent(ctx context.Context) error {
	states, err := c.Systemd.States(ctx, []string{kubelet})
	if err != nil {
		return err
	}
	s := states[kubelet]
	if !s.Running || s.Queued || c.Now().Sub(s.Started) < settled {
		return c.forget() // it is off on purpose, or about to register
	}
	file := filepath.Join(c.Root, absentFile)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600), os.Chtimes(file, c.Now(), c.Now()))
	}
	if err != nil || c.Now().Sub(info.ModTime()) < settled {
		return err
	}
	c.Tell("the node " + c.Own.Node + " is not in the cluster, so the kubelet is restarted, which registers it")
	for _, f := range ofRange {
		if err := host.RemoveAt(filepath.Join(c.Root, f)); err != nil {
			return err
		}
	}
	return errors.Join(c.forget(), c.Systemd.Start(ctx, kubelet, true))
}

// forget notes that the node is not absent.
func (c *Check) forget() error { return host.RemoveAt(filepath.Join(c.Root, absentFile)) }

// ranges deletes the machine's pods with addresses of other ranges than the node has,
// once after these have changed.
func (c *Check) ranges(ctx context.Context, now []string) error {
	if len(now) == 0 {
		return nil // the node is new; its ranges come
	}
	file, text := filepath.Join(c.Root, rangesFile), strings.Join(now, "\n")+"\n"
	before, err := os.ReadFile(file)
	if err == nil && string(before) == text {
		return nil
	}
	if err == nil {
		if err := c.removeStrays(ctx, parse(strings.Fields(string(before))), parse(now)); err != nil {
			return err // it is tried again
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600))
}

// removeStrays deletes the pods of the machine whose address is of a former range alone.
func (c *Check) removeStrays(ctx context.Context, before, now []netip.Prefix) error {
	pods, err := c.Own.Pods(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		address, err := netip.ParseAddr(p.Status.PodIP)
		in := func(r netip.Prefix) bool { return r.Contains(address) }
		if err != nil || p.Spec.HostNetwork || slices.ContainsFunc(now, in) || !slices.ContainsFunc(before, in) {
			continue
		}
		c.Tell(fmt.Sprintf("the pod %s/%s has the address %s, which is no longer reachable: it is deleted", p.Metadata.Namespace, p.Metadata.Name, address))
		if _, err := c.Own.Call(ctx, http.MethodDelete, "/api/v1/namespaces/"+p.Metadata.Namespace+"/pods/"+p.Metadata.Name, nil, nil); err != nil {
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
