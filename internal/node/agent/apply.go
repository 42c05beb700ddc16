package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent/report"
)

// hashFile records which configuration replaces the one that the machine was started with.
const hashFile = "/var/lib/kops/applied.json"

// appliedConfig names the configuration that replaces the one from the machine's start. It is valid
// as long as the boot configuration has not changed since.
type appliedConfig struct {
	Started string `json:"started"`
	Hash    string `json:"hash"`
}

// Apply makes a member match the configuration with the given hash in place: pods keep running,
// and changed services are restarted. From then on the machine uses that configuration, even if
// this run fails or is interrupted. ready, the last phase, waits until the restarted services run.
// An error comes with the name of the phase that failed.
func (a *Agent) Apply(ctx context.Context, boot []byte, hash string, ready func(context.Context) error) (phase string, err error) {
	rec := a.recorder()
	err = a.applyOnce(ctx, rec, boot, hash)
	if err == nil {
		err = rec.do(PhaseReady, func() error { return ready(ctx) })
	}
	rec.change(func(rep *report.Report) {
		rep.Done = err == nil
		if broken := rep.Broken(); broken != nil {
			phase = broken.Name
		}
	})
	return phase, err
}

func (a *Agent) applyOnce(ctx context.Context, rec *recorder, boot []byte, hash string) error {
	r, p, err := a.prepare(ctx, rec, boot, hash)
	if errors.Is(err, ErrJoined) {
		return fault.Wrap(fault.NotYet, errors.New("kops-controller does not support changing machines in place"), "update the control plane first: kops rolling-update cluster --yes")
	}
	if err != nil {
		return err
	}
	return r.carryOut(ctx, p)
}

// hash returns the hash of the configuration that the machine must use; "" means any.
func (r *run) hash() (string, error) {
	if r.requestedHash != "" {
		return r.requestedHash, nil
	}
	text, err := os.ReadFile(filepath.Join(r.Machine.Root, hashFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r.boot.NodeupConfigHash, nil
	}
	if err != nil {
		return "", err
	}
	var since appliedConfig
	if err := json.Unmarshal(text, &since); err != nil || since.Started != r.boot.NodeupConfigHash {
		return r.boot.NodeupConfigHash, nil // treat an unreadable file as missing
	}
	return since.Hash, nil
}

// keepHash records the requested configuration.
func (r *run) keepHash(ctx context.Context) error {
	if r.requestedHash == "" {
		return nil
	}
	text, err := json.Marshal(appliedConfig{Started: r.boot.NodeupConfigHash, Hash: r.requestedHash})
	if err != nil {
		return err
	}
	return writeIfChanged(ctx, r.Machine, hashFile, string(text)+"\n")
}

// keepRunning records what the machine now runs: what this run read last, whether or not
// this run changed anything.
func (r *run) keepRunning(ctx context.Context) error {
	now := labels.Running{Hash: nodeconfig.Hash(r.text), Files: r.shapes}
	for name, s := range r.input.Secrets {
		key := layout.Secrets + "/" + name
		sum, err := labels.DigestSecret(key, []byte(s.Reveal()))
		if err != nil {
			return err
		}
		now.Files[key] = sum
	}
	if err := writeIfChanged(ctx, r.Machine, paths.Running, labels.Write(now)+"\n"); err != nil {
		return fmt.Errorf("record what the machine runs: %w", err)
	}
	return nil
}
