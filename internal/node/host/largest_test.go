package host

import (
	"io"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// endless is an endless reader of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestNoSenderFillsTheDisk(t *testing.T) {
	if err := copyBody(io.Discard, endless{}); fault.Of(err) != fault.Permanent || !strings.Contains(err.Error(), "longer than 2 GiB") {
		t.Errorf("%v", err)
	}
}
