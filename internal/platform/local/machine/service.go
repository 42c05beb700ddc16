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

// A cluster's units in the host's systemd are a slice with a transient service for
// each machine and one for the keeper. The slices of all clusters are in parentSlice.
const parentSlice = "kops.slice"

func (h Host) slice() string           { return "kops-" + h.ID() + ".slice" }
func (h Host) unit(name string) string { return "kops-" + h.ID() + "-" + name + ".service" }

// KeeperUnit returns the name of the keeper's service.
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

// limitSlice limits the memory of all machines of the host.
func (h Host) limitSlice(ctx context.Context, mib int) error {
	args := append([]string{"set-property", "--runtime", parentSlice}, memoryProperties(mib)...)
	if out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl set-property %s: %w: %s", parentSlice, err, bytes.TrimSpace(out))
	}
	return nil
}

// notLoaded is systemctl's exit status for a unit that does not exist.
const notLoaded = 5

// Retire stops a unit and makes the host's systemd forget it. It does nothing if the
// host has no systemd, or the unit does not exist.
func (h Host) Retire(ctx context.Context, unit string) error {
	if !h.Systemd {
		return nil
	}
	out, err := exec.CommandContext(ctx, "systemctl", "stop", unit).CombinedOutput()
	var status *exec.ExitError
	if err != nil && !(errors.As(err, &status) && status.ExitCode() == notLoaded) {
		return fmt.Errorf("systemctl stop %s: %w: %s", unit, err, bytes.TrimSpace(out))
	}
	_ = exec.CommandContext(ctx, "systemctl", "reset-failed", unit).Run() // fails, as it should, for a unit that did not fail
	return nil
}

// RetireSlice removes the cluster's slice, and parentSlice if no other cluster is in it. Anything
// that runs in the cluster's slice is stopped.
func (h Host) RetireSlice(ctx context.Context) error {
	if err := h.Retire(ctx, h.slice()); err != nil || !h.Systemd {
		return err
	}
	below, err := filepath.Glob(filepath.Join(h.Trees[0].Dir, parentSlice, "*", "cgroup.procs"))
	if err != nil || len(below) > 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(h.Trees[0].Dir, parentSlice)); err == nil { // otherwise it is gone
		if err := h.Retire(ctx, parentSlice); err != nil {
			return err
		}
	}
	_ = exec.CommandContext(ctx, "systemctl", "revert", parentSlice).Run() // its limits, which are below /run: any that remain are gone after the next boot
	return nil
}
