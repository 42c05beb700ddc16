//go:build !windows

package vtpm

import (
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
)

func openFile(path string, socket bool) (transport.TPMCloser, error) {
	if socket {
		return linuxudstpm.Open(path)
	}
	return linuxtpm.Open(path)
}
