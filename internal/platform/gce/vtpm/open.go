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

// devices are where Linux has a TPM. The first shares it among programs.
func devices() []string { return []string{"/dev/tpmrm0", "/dev/tpm0"} }

// Open connects to the TPM of a machine whose file system begins at root. The error is of class
// fault.NotYet where another program has the TPM, and of fault.Permanent where there is none.
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

// OpenFile connects to a TPM, which is a device or, where software plays it, a Unix socket.
func OpenFile(path string) (transport.TPMCloser, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return openFile(path, info.Mode()&os.ModeSocket != 0)
}
