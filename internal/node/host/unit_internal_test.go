package host

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// A restart of systemd itself cuts questions off in several ways.
func TestAQuestionThatWasCutOffIsAskedAgain(t *testing.T) {
	cut := &net.OpError{Op: "read", Net: "unix", Err: syscall.ECONNRESET}
	if err := asked(fmt.Errorf("start a.service: %w", cut)); !fault.Of(err).Retryable() {
		t.Errorf("%v is not asked again", err)
	}
	if err := asked(errors.New("no such unit")); fault.Of(err).Retryable() {
		t.Errorf("%v is asked again", err)
	}
}
