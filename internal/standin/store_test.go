package standin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// shelf is a store with boxes, and lids that each refer to a box.
func shelf(t *testing.T) (*lamp, *standin.Store) {
	t.Helper()
	l := play(t)
	return l, standin.NewStore(l.Server, standin.Kind{Name: "lids", Refs: []standin.Ref{{Field: "box", Kind: "boxes"}, {Field: "spare[].box", Kind: "boxes"}}}, standin.Kind{Name: "boxes", Most: 3})
}

func add(t *testing.T, s *standin.Store, kind string, o tree.Object) *standin.Entry {
	t.Helper()
	o["id"] = s.NextID()
	e, err := s.Add(kind, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ids(all []tree.Object) string {
	var out []string
	for _, o := range all {
		out = append(out, fmt.Sprint(o["id"]))
	}
	return strings.Join(out, " ")
}

func TestObjectsHaveAnOrderAndIDsOfTheirOwn(t *testing.T) {
	_, s := shelf(t)
	a, b, c := add(t, s, "boxes", tree.Object{"name": "a"}), add(t, s, "boxes", tree.Object{"name": "b"}), add(t, s, "boxes", tree.Object{"name": "c"})
	var full *standin.FullError
	if _, err := s.Add("boxes", tree.Object{"id": s.NextID()}); !errors.As(err, &full) || err.Error() != "there are 3 boxes, the maximum" {
		t.Error(err)
	}
	s.SetMost("boxes", 4)
	s.Remove(add(t, s, "boxes", tree.Object{}))
	s.Remove(b)
	d := add(t, s, "boxes", tree.Object{"name": "d"})
	if got := ids(s.Read("boxes")); got != "1 3 6" || d.ID() != int64(6) || len(s.All("boxes")) != 3 {
		t.Errorf("got %s", got)
	}
	if s.Get("boxes", int64(2)) != nil || s.Get("boxes", int64(3)) != c || s.Find("boxes", "name", "a") != a || s.Find("boxes", "name", "b") != nil || s.Get("lids", int64(3)) != nil {
		t.Error("others are found")
	}
	s.Read("boxes")[0]["name"] = "z"
	if a.Object["name"] != "a" {
		t.Error("a reader changes an object")
	}
}

func TestReferences(t *testing.T) {
	_, s := shelf(t)
	a, b := add(t, s, "boxes", tree.Object{}), add(t, s, "boxes", tree.Object{})
	of := standin.Ref{Field: "spare[].box", Kind: "boxes"}
	if err := s.Check(tree.Object{"spare": tree.List{tree.Object{"box": nil}, tree.Object{"box": int64(1)}}}, of); err != nil {
		t.Error(err)
	}
	err := s.Check(tree.Object{"spare": tree.List{tree.Object{"box": int64(1)}, tree.Object{"box": int64(9)}}}, of)
	if missing := (*standin.MissingError)(nil); !errors.As(err, &missing) || *missing != (standin.MissingError{Field: "spare[1].box", Kind: "boxes", ID: int64(9)}) {
		t.Errorf("got %v", err)
	}
	one := add(t, s, "lids", tree.Object{"box": a.ID()})
	two := add(t, s, "lids", tree.Object{"box": b.ID(), "spare": tree.List{tree.Object{"box": a.ID()}}})
	if got := s.Users(a); len(got) != 2 || got[0] != one || got[1] != two {
		t.Errorf("got %v", got)
	}
	if got := s.Users(b); len(got) != 1 || got[0] != two || s.Users(one) != nil {
		t.Errorf("got %v", got)
	}
}

func TestReadsLagBehind(t *testing.T) {
	l, s := shelf(t)
	wait := func(d time.Duration) {
		t.Helper()
		if err := l.Sleep(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	see := func(want string) {
		t.Helper()
		l.Do(func() {
			if got := ids(s.Read("boxes")); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	var a *standin.Entry
	l.Do(func() { a = add(t, s, "boxes", tree.Object{}); s.SetLag(10 * time.Second) })
	see("1")
	wait(time.Second)
	l.Do(func() { add(t, s, "boxes", tree.Object{}) })
	wait(5 * time.Second)
	l.Do(func() { s.Remove(a) })
	see("1")
	wait(5 * time.Second)
	see("1 2")
	wait(5 * time.Second)
	see("2")
	l.Do(func() { add(t, s, "boxes", tree.Object{}); s.SetLag(0) })
	see("2 3")
}

func TestAllowance(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := standin.Allowance{Most: 3, Every: time.Second}
	for _, tt := range []struct {
		wait time.Duration
		want bool
		left int
		full time.Duration // after a request
	}{
		{0, true, 2, time.Second}, {0, true, 1, 2 * time.Second}, {0, true, 0, 3 * time.Second}, {0, false, 0, 3 * time.Second},
		{time.Second - 1, false, 0, 2*time.Second + 1}, {1, true, 0, 3 * time.Second}, {1500 * time.Millisecond, true, 0, 2500 * time.Millisecond},
		{time.Hour, true, 2, time.Second},
	} {
		now = now.Add(tt.wait)
		if got := a.Take(now); got != tt.want || a.Left(now) != tt.left || a.Full(now).Sub(now) != tt.full {
			t.Errorf("after %s: %t, %d are left, full in %s", tt.wait, got, a.Left(now), a.Full(now).Sub(now))
		}
	}
	if now = now.Add(time.Hour); !a.Full(now).Equal(now) || a.Left(now) != 3 {
		t.Errorf("after an hour %d are left", a.Left(now))
	}
}
