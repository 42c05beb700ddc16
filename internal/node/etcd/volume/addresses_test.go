package volume

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestAddressesAreRemembered(t *testing.T) {
	now, loads, machines := time.Unix(1000, 0), 0, map[string][]string{"a": {"10.0.0.1"}}
	a := &Addresses{Now: func() time.Time { return now }, Load: func(context.Context) (map[string][]string, error) {
		if loads++; machines == nil {
			return nil, errors.New("down")
		}
		return machines, nil
	}}
	for _, step := range []struct {
		after   time.Duration
		machine string
		want    string
		loads   int // in total
	}{
		{0, "a", "map[1:[10.0.0.1]]", 1},
		{59 * time.Second, "a", "map[1:[10.0.0.1]]", 1},
		{time.Second, "a", "map[1:[10.0.0.1]]", 2},
		{9 * time.Second, "gone", "map[]", 2},
		{time.Second, "gone", "map[]", 3},
		{time.Second, "gone", "map[]", 3},
	} {
		now = now.Add(step.after)
		got, err := a.Locate(t.Context(), []LabelledDisk{{ID: "1", Place: Place{Machine: step.machine}}})
		if err != nil || fmt.Sprint(got) != step.want || loads != step.loads {
			t.Errorf("%+v: got %v, %v after %d loads", step, got, err, loads)
		}
	}
	now, machines = now.Add(time.Minute), nil
	if _, err := a.Locate(t.Context(), []LabelledDisk{{ID: "1"}}); err == nil {
		t.Error("it locates machines without a list")
	}
}
