package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

func TestTheOutermostClassCounts(t *testing.T) {
	inner := fault.Wrap(fault.Conflict, errors.New("taken"), "wait a minute")
	for _, c := range []struct {
		err    error
		class  fault.Class
		remedy string
	}{
		{nil, "", ""},
		{fault.Wrap(fault.Gone, nil, "look elsewhere"), "", ""},
		{errors.New("plain"), fault.Permanent, ""},
		{fault.New(fault.Quota, "no more %s", "addresses"), fault.Quota, ""},
		{inner, fault.Conflict, "wait a minute"},
		{fmt.Errorf("create it: %w", inner), fault.Conflict, "wait a minute"},
		{fault.Wrap(fault.Permanent, inner, ""), fault.Permanent, "wait a minute"},
		{fault.Wrap(fault.Permanent, inner, "ask your administrator"), fault.Permanent, "ask your administrator"},
		{errors.Join(errors.New("plain"), inner), fault.Conflict, "wait a minute"},
	} {
		if got := fault.Of(c.err); got != c.class || fault.Is(c.err, c.class) != (c.err != nil) {
			t.Errorf("%v is %q, want %q", c.err, got, c.class)
		}
		if got := fault.Remedy(c.err); got != c.remedy {
			t.Errorf("remedy of %v: %q, want %q", c.err, got, c.remedy)
		}
		if got, want := c.class.Retryable(), c.class == fault.Conflict; got != want {
			t.Errorf("%q may go away by itself: %t", c.class, got)
		}
	}
}
