package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// What a cluster has in the host's systemd: a slice with a transient service for
// each machine and one for the keeper. The slices of all clusters are in one.
const parentSlice = "kops.slice"

func (h Host) slice() string           { return "kops-" + h.ID() + ".slice" }
func (h Host) unit(name string) string { return "kops-" + h.ID() + "-" + name + ".service" }

// KeeperUnit is the service of the cluster's keeper.
func (h Host) KeeperUnit() string { return h.unit("keeper") }

// Service starts a command as a transient service in the cluster's slice.
func (h Host) Service(ctx context.Context, unit string, properties, args []string) error {
	options := []string{"--quiet", "--collect", "--unit=" + unit, "--slice=" + h.slice()}
	for _, p := range properties {
		options = append(options, "--property="+p)
	}
	out, err := exec.CommandContext(ctx, "systemd-run", append(append(options, "--"), args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemd-run: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// limitSlice bounds the memory of all machines of the host.
func (h Host) limitSlice(ctx context.Context, mib int) error {
	args := append([]string{"set-property", "--runtime", parentSlice}, memoryProperties(mib)...)
	if out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl set-property %s: %w: %s", parentSlice, err, bytes.TrimSpace(out))
	}
	return nil
}

// notLoaded is the status of systemctl for a unit that does not exist.
const notLoaded = 5

// Retire stops a unit and has the host's systemd forget it. It does nothing
// where the host has none, nor for a unit that does not exist.
func (h Host) Retire(ctx context.Context, unit string) error {
	if !h.Systemd {
		return nil
	}
	out, err := exec.CommandContext(ctx, "systemctl", "stop", unit).CombinedOutput()
	var status *exec.ExitError
	if err != nil && !(errors.As(err, &status) && status.ExitCode() == notLoaded) {
		return fmt.Errorf("systemctl stop %s: %w: %s", unit, err, bytes.TrimSpace(out))
	}
	_ = exec.CommandContext(ctx, "systemctl", "reset-failed", unit).Run() // fails for a unit that did not fail, rightly
	return nil
}

// RetireSlice removes the cluster's slice, and the slice of all clusters when no other is in it.
// Anything that runs in the cluster's slice ends.
func (h Host) RetireSlice(ctx context.Context) error {
	if err := h.Retire(ctx, h.slice()); err != nil || !h.Systemd {
		return err
	}
	below, err := filepath.Glob(filepath.Join(h.Trees[0].Dir, parentSlice, "*", "cgroup.procs"))
	if err != nil || len(below) > 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(h.Trees[0].Dir, parentSlice)); err == nil { // else it is gone
		if err := h.Retire(ctx, parentSlice); err != nil {
			return err
		}
	}
	_ = exec.CommandContext(ctx, "systemctl", "revert", parentSlice).Run() // its limits, which are below /run: what stays goes with the next boot
	return nil
}
