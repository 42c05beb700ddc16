package shell

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestACommandSaysWhatItDoesWhileItHasNothingToShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, err bytes.Buffer
		a := New(System{Terminal: true, Paged: true, Out: &out, Err: &err, Now: time.Now, Width: 80})
		a.Phase("read")
		time.Sleep(quiet / 2)
		synctest.Wait()
		if err.Len() > 0 {
			t.Fatalf("at once: %q", err.String())
		}
		a.Phase("observe")
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		for _, want := range []string{"reading existing resources … 0s\n", "reading existing resources … 2s\n"} {
			if !strings.Contains(err.String(), want) {
				t.Errorf("%q lacks %q", err.String(), want)
			}
		}
		a.Printf("a plan\n")
		if text := err.String(); !strings.HasSuffix(text, "\r\x1b[1A\x1b[J") {
			t.Errorf("the line stays: %q", text)
		}
		before := err.Len()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err.Len() != before || out.String() != "a plan\n" {
			t.Errorf("after the plan: %q, %q", err.String()[before:], out.String())
		}
		a.Phase("model")
		a.Phase("") // before it was shown
		time.Sleep(time.Second)
		synctest.Wait()
		if err.Len() != before {
			t.Errorf("after the end: %q", err.String()[before:])
		}
	})
}

// Files, pipes and -v have no redrawn line.
func TestNothingIsRedrawnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err bytes.Buffer
		a := New(System{Out: &err, Err: &err, Now: time.Now})
		a.Phase("observe")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err.Len() > 0 {
			t.Errorf("%q", err.String())
		}
	})
}
