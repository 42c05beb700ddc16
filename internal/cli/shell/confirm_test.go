package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAQuestionEndsWithTheCommand(t *testing.T) {
	in, out := io.Pipe() // nothing is written to it
	defer out.Close()    //nolint:errcheck // it frees the reader
	app := New(System{In: in, Err: &bytes.Buffer{}})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if ok, err := app.Confirm(ctx, "Sure?"); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestOnlyYesIsYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes \n": true, "n\n": false, "\n": false, "yess\n": false, "y": true, "": false} {
		app := New(System{In: strings.NewReader(answer), Err: &bytes.Buffer{}})
		if ok, err := app.Confirm(t.Context(), "Sure?"); ok != want || err != nil {
			t.Errorf("%q: got %v, %v", answer, ok, err)
		}
	}
}
