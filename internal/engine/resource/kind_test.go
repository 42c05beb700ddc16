package resource

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type server struct {
	Name  string `res:"replace"`
	Late  int    `res:",post"`
	On    bool   `res:",post"`
	Size  int
	Color string
	Token string `res:"writeonly"`

	ID  string `res:"out,id" out:"id"`
	Rev int    `res:"out,volatile" out:"rev"`
}

// servers logs calls and their arguments.
func servers(log *[]string) *Kind[server, string] {
	say := func(format string, args ...any) { *log = append(*log, fmt.Sprintf(format, args...)) }
	return &Kind[server, string]{
		Name: "server", API: "toy", Key: func(s *server) string { return s.Name },
		Initial: func(s *server) { s.On = true },
		List: func(_ context.Context, c string, s Scope) ([]*server, error) {
			if s.Cluster == "" {
				return nil, errors.New("no cluster")
			}
			return []*server{{Name: "a"}, {Name: "b"}}, nil
		},
		Create: func(_ context.Context, c string, s *server) error {
			say("create %s %d %s for %s", s.Name, s.Late, s.Token, c)
			s.ID, s.Rev, s.Size = "id-"+s.Name, 1, 99
			return nil
		},
		Update: []Setter[server, string]{
			{Fields: []string{"Late", "On"}, Set: func(_ context.Context, _ string, have, want *server) error {
				say("late %d", want.Late)
				have.Rev++
				return nil
			}},
			{Fields: []string{"Size"}, Set: func(_ context.Context, _ string, have, want *server) error {
				say("size %d", want.Size)
				have.Rev++
				return nil
			}},
			{Fields: []string{"Color"}, Set: func(context.Context, string, *server, *server) error { return errors.New("no paint") }},
		},
		Ready:  func(_ context.Context, _ string, s *server) error { say("ready %s", s.ID); return nil },
		Delete: func(_ context.Context, _ string, s *server) error { say("delete %s", s.ID); return nil },
	}
}

func TestCreateReturnsANewObjectWithItsPostFieldsAsTheyBegin(t *testing.T) {
	var log []string
	k := servers(&log).Erase()
	want := &server{Name: "a", Late: 3, Size: 1, Token: "t"}
	got, err := k.Create(t.Context(), "client", want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&server{Name: "a", On: true, Size: 1, Token: "t", ID: "id-a", Rev: 1}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&server{Name: "a", Late: 3, Size: 1, Token: "t"}, want); d != "" {
		t.Errorf("what is wanted changed: %s", d)
	}
	if d := cmp.Diff([]string{"create a 3 t for client"}, log); d != "" {
		t.Error(d)
	}
}

func TestSetRunsEachSetterOnceAndKeepsOutputs(t *testing.T) {
	var log []string
	k := servers(&log).Erase()
	have, want := &server{Name: "a", ID: "id-a", Rev: 4}, &server{Name: "a", Late: 2, On: true, Size: 5}
	got, err := k.Set(t.Context(), "c", have, want, k.Schema().Diff(want, have))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"late 2", "size 5"}, log); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&server{Name: "a", Late: 2, On: true, Size: 5, ID: "id-a", Rev: 6}, got); d != "" {
		t.Error(d)
	}
	if have.Rev != 4 {
		t.Error("the observed object changed")
	}
	want.Color = "red"
	if _, err := k.Set(t.Context(), "c", have, want, k.Schema().Diff(want, have)); err == nil || err.Error() != "no paint" {
		t.Errorf("error: %v", err)
	}
}

func TestObserveKeysObjectsAndNamesTheKind(t *testing.T) {
	k := servers(new([]string)).Erase()
	got, err := k.Observe(t.Context(), "c", Scope{Cluster: "x"})
	if err != nil || len(got) != 2 || got[0].Key != "a" || got[1].Key != "b" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := k.Observe(t.Context(), "c", Scope{}); err == nil || err.Error() != "list objects of kind server: no cluster" {
		t.Errorf("error: %v", err)
	}
}

func TestReadyIsOptional(t *testing.T) {
	var log []string
	k := servers(&log)
	if err := k.Erase().Ready(t.Context(), "c", &server{ID: "x"}); err != nil || len(log) != 1 {
		t.Error(err, log)
	}
	k.Ready = nil
	if err := k.Erase().Ready(t.Context(), "c", &server{}); err != nil || len(log) != 1 {
		t.Error(err, log)
	}
}

func TestNodesReferToWhatTheyUse(t *testing.T) {
	k := &Kind[everything, any]{Name: "k"}
	id := Out(vpc, "id")
	n := k.New("n", everything{Value: id, Values: []Value{id, Out(Address{Kind: "subnet", Name: "a"}, "id")}})
	n.After = []Address{{Kind: "role", Name: "r"}, vpc}
	if d := cmp.Diff([]Address{vpc, {Kind: "subnet", Name: "a"}, {Kind: "role", Name: "r"}}, n.Refs()); d != "" {
		t.Error(d)
	}
	if got := n.Out("arn").String(); got != "${k/n.arn}" {
		t.Errorf("got %s", got)
	}
	if a := k.Adopt("n", "vpc-1", everything{}); a.Adopt != "vpc-1" || n.Adopt != "" {
		t.Errorf("adopted as %q", a.Adopt)
	}
}
