package host

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// A restart of systemd itself interrupts queries in several ways.
func TestAnInterruptedQueryIsRetried(t *testing.T) {
	cut := &net.OpError{Op: "read", Net: "unix", Err: syscall.ECONNRESET}
	if err := classifyQueryError(fmt.Errorf("start a.service: %w", cut)); !fault.Of(err).Retryable() {
		t.Errorf("%v is not asked again", err)
	}
	if err := classifyQueryError(errors.New("no such unit")); fault.Of(err).Retryable() {
		t.Errorf("%v is asked again", err)
	}
}
