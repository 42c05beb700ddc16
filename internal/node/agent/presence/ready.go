package presence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/ownnode"
)

const (
	// patience is how long restarted programs may take to become ready.
	patience = 5 * time.Minute
	// readyLook is the interval between checks.
	readyLook = 2 * time.Second
	// taken is how long after its manifest was written a pod that keeps running counts as
	// that manifest's pod: the kubelet found that nothing in it had changed.
	taken = 2 * time.Minute
)

// Ready waits until the kubelet has reported the node as ready since its own start, and
// every static pod is ready and was started after its manifest was written.
func (c *Check) Ready(ctx context.Context, sleep func(context.Context, time.Duration) error) error {
	for end := c.Now().Add(patience); ; {
		err := c.ready(ctx)
		if err == nil || c.Now().After(end) {
			return err
		}
		if serr := sleep(ctx, readyLook); serr != nil {
			return err
		}
	}
}

func (c *Check) ready(ctx context.Context) error {
	states, err := c.Systemd.States(ctx, []string{kubelet})
	if err != nil {
		return err
	}
	n, err := c.OwnNode.Get(ctx)
	if err != nil {
		return err
	}
	since := states[kubelet].Started.Truncate(time.Second)
	if n == nil || !slices.ContainsFunc(n.Status.Conditions, func(c ownnode.Condition) bool {
		return isReady(c) && !c.LastHeartbeatTime.Before(since)
	}) {
		return fault.New(fault.NotYet, "the kubelet has not reported the node %s as ready since it was started", c.OwnNode.Node)
	}
	return c.podsReady(ctx)
}

func isReady(c ownnode.Condition) bool { return c.Type == "Ready" && c.Status == "True" }

// podsReady checks the static pods.
func (c *Check) podsReady(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(c.Root, node.Manifests, "*.manifest"))
	if err != nil || len(files) == 0 {
		return err
	}
	pods, err := c.OwnNode.Pods(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, c.podReady(f, pods))
	}
	return errors.Join(errs...)
}

// podReady checks the pod of a manifest.
func (c *Check) podReady(file string, pods []ownnode.Pod) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var manifest struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct{ Containers []struct{} }
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return fmt.Errorf("read the static pod %s: %w", file, err)
	}
	m := manifest.Metadata
	i := slices.IndexFunc(pods, func(p ownnode.Pod) bool {
		return p.Metadata.Name == m.Name+"-"+c.OwnNode.Node && p.Metadata.Namespace == m.Namespace
	})
	if i < 0 {
		return fault.New(fault.NotYet, "the static pod %s is not running yet", m.Name)
	}
	s := pods[i].Status
	if !slices.ContainsFunc(s.Conditions, isReady) || len(s.ContainerStatuses) != len(manifest.Spec.Containers) {
		return fault.New(fault.NotYet, "the static pod %s is not ready", m.Name)
	}
	written := info.ModTime().Truncate(time.Second)
	for _, one := range s.ContainerStatuses {
		if r := one.State.Running; (r == nil || r.StartedAt.Before(written)) && c.Now().Sub(written) < taken {
			return fault.New(fault.NotYet, "the container %s of the static pod %s was not started since its manifest was written", one.Name, m.Name)
		}
	}
	return nil
}
