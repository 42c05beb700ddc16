// Package softtpm plays the virtual TPM of an instance on this host, with swtpm: its state is kept
// in a folder of its own.
//
// It must not know what the TPM is asked for.
package softtpm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/vtpm"
)

// Program is what plays a TPM; Debian has it in the package of that name.
const Program = "swtpm"

const (
	// startLimit is how long it may take until it answers; it needs about 20 ms.
	startLimit = 30 * time.Second
	startPause = 5 * time.Millisecond
)

// TPM is one that runs.
type TPM struct {
	// Socket is the Unix socket at which it answers commands, one for each connection.
	Socket  string
	command *exec.Cmd
	said    *bytes.Buffer
}

// Start runs a TPM with the state of a folder, which is made where it is not there. It
// answers at socket, a path of at most 107 bytes, and ends with Stop. how is how its process is
// started, and may be nil. The error is of class fault.Permanent where swtpm is not installed.
func Start(ctx context.Context, state, socket string, how func(*exec.Cmd)) (*TPM, error) {
	program, err := exec.LookPath(Program)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "apt-get install "+Program)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	t := &TPM{Socket: socket, said: &bytes.Buffer{}}
	t.command = exec.Command(program, "socket", "--tpm2", "--tpmstate", "dir="+state, "--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
	t.command.Stderr, t.command.Stdout = t.said, t.said
	if how != nil {
		how(t.command)
	}
	if err := t.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", Program, err)
	}
	if err := t.answers(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", Program, err), t.Stop())
	}
	return t, nil
}

// answers waits until the TPM answers.
func (t *TPM) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := t.ask()
		if err == nil {
			return nil
		}
		if clock.Sleep(ctx, startPause) != nil {
			return fmt.Errorf("it does not answer: %w: %s", err, t.said)
		}
	}
}

func (t *TPM) ask() error {
	c, err := t.Open()
	if err != nil {
		return err
	}
	_, err = tpm2.GetRandom{BytesRequested: 8}.Execute(c)
	return errors.Join(err, c.Close())
}

// Open connects to it.
func (t *TPM) Open() (transport.TPMCloser, error) { return vtpm.OpenFile(t.Socket) }

// Stop ends it; its state stays.
func (t *TPM) Stop() error {
	if err := t.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = t.command.Wait() // it was told to end
	return nil
}

// Prepare makes the state of an instance's TPM in a folder, with all that Google puts into
// it, and returns its attestation key, as vtpm.PublicKey does. A state that is there stays, with its key.
func Prepare(ctx context.Context, state string) (key string, err error) {
	dir, err := os.MkdirTemp("", "tpm") // as the path of a socket is short
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is of no use, nor harm
	t, err := Start(ctx, state, filepath.Join(dir, "s"), nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.Stop()) }()
	c, err := t.Open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := vtpm.Fill(c); err != nil {
		return "", err
	}
	return vtpm.PublicKey(c)
}
