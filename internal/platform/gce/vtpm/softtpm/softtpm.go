// Package softtpm emulates the virtual TPM of an instance on this host, with swtpm: its state is
// kept in its own folder.
//
// It must not know what the TPM is used for.
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

// Program is the TPM emulator; the Debian package has the same name.
const Program = "swtpm"

const (
	// startLimit is how long it may take until it responds; it takes about 20 ms.
	startLimit = 30 * time.Second
	startPause = 5 * time.Millisecond
)

// TPM is a running TPM.
type TPM struct {
	// Socket is the Unix socket on which it accepts commands, one per connection.
	Socket  string
	command *exec.Cmd
	output  *bytes.Buffer
}

// Start runs a TPM with the state in a folder, which is created if needed. It listens on socket, a
// path of at most 107 bytes, until Stop. how, which may be nil, can modify the command of its
// process. The error has class fault.Permanent if swtpm is not installed.
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
	t := &TPM{Socket: socket, output: &bytes.Buffer{}}
	t.command = exec.Command(program, "socket", "--tpm2", "--tpmstate", "dir="+state, "--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
	t.command.Stderr, t.command.Stdout = t.output, t.output
	if how != nil {
		how(t.command)
	}
	if err := t.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", Program, err)
	}
	if err := t.waitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", Program, err), t.Stop())
	}
	return t, nil
}

// waitReady waits until the TPM responds.
func (t *TPM) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := t.probe()
		if err == nil {
			return nil
		}
		if clock.Sleep(ctx, startPause) != nil {
			return fmt.Errorf("it does not answer: %w: %s", err, t.output)
		}
	}
}

func (t *TPM) probe() error {
	c, err := t.Open()
	if err != nil {
		return err
	}
	_, err = tpm2.GetRandom{BytesRequested: 8}.Execute(c)
	return errors.Join(err, c.Close())
}

// Open connects to the TPM.
func (t *TPM) Open() (transport.TPMCloser, error) { return vtpm.OpenFile(t.Socket) }

// Stop stops the TPM; its state is kept.
func (t *TPM) Stop() error {
	if err := t.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = t.command.Wait() // it was stopped on purpose
	return nil
}

// Prepare creates the state of an instance's TPM in a folder, with everything that Google stores in
// it, and returns its attestation key in vtpm.PublicKey's format. An existing state is kept, with
// its key.
func Prepare(ctx context.Context, state string) (key string, err error) {
	dir, err := os.MkdirTemp("", "tpm") // the path of a socket must be short
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
	if err := vtpm.StoreTemplate(c); err != nil {
		return "", err
	}
	return vtpm.PublicKey(c)
}
