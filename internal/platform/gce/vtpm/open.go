package vtpm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/engine/fault"
)

// devices returns the paths of TPMs on Linux. The first can be shared by programs.
func devices() []string { return []string{"/dev/tpmrm0", "/dev/tpm0"} }

// Open connects to the TPM of the machine whose file system is at root. The error has class
// fault.NotYet if another program is using the TPM, and fault.Permanent if there is none.
func Open(root string) (transport.TPMCloser, error) {
	for _, d := range devices() {
		t, err := OpenFile(filepath.Join(root, d))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ECONNREFUSED):
			return nil, fault.New(fault.NotYet, "open the TPM: %w", err)
		case err != nil:
			return nil, fmt.Errorf("open the TPM: %w", err)
		default:
			return t, nil
		}
	}
	return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the machine has no TPM at %s", strings.Join(devices(), " or ")), enable)
}

// OpenFile connects to a TPM at a device or, for a software TPM, a Unix socket.
func OpenFile(path string) (transport.TPMCloser, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return openFile(path, info.Mode()&os.ModeSocket != 0)
}
