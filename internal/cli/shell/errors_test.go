package shell

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"kops.local/kops/internal/spec/diag"
)

func TestEachErrorHasItsLine(t *testing.T) {
	two := diag.List{{Message: "a is wrong"}, {Message: "  a detail"}, {Message: "b is wrong"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{two, "Error: a is wrong\n  a detail\nError: b is wrong\n"},
		{fmt.Errorf("step 1: %w", two), "Error: step 1: a is wrong\n  a detail\nError: b is wrong\n"},
		{errors.Join(errors.New("first"), fmt.Errorf("step 1: %w", two)), "Error: first\nError: step 1: a is wrong\n  a detail\nError: b is wrong\n"},
		{fmt.Errorf("step 1: %w; go on", two), "Error: step 1: a is wrong\n  a detail\nb is wrong; go on\n"},
	} {
		var out bytes.Buffer
		New(System{Err: &out}).PrintError(c.err)
		if out.String() != c.want {
			t.Errorf("%q, not %q", out.String(), c.want)
		}
	}
}
