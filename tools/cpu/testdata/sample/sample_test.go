// Package sample has tests with all kinds of results, which the tests of cpu run.
package sample

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// burn uses CPU time.
func burn(d time.Duration) {
	for end := used() + d; used() < end; {
	}
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestBurns(t *testing.T) { burn(600 * time.Millisecond) }

func TestSleeps(t *testing.T) { time.Sleep(600 * time.Millisecond) }

func TestChildBurns(t *testing.T) {
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
}

func TestBurnsInParallel(t *testing.T) { t.Parallel(); burn(500 * time.Millisecond) }

func TestWaitsInParallel(t *testing.T) { t.Parallel(); time.Sleep(time.Second) }

func TestPasses(t *testing.T) {
	t.Log("not shown")
	fmt.Println("printed by a test that passes")
	t.Run("sub", func(t *testing.T) { t.Log("not shown either") })
}

func TestSkips(t *testing.T) { t.Skip("not now") }

func TestFails(t *testing.T) {
	t.Log("before\nsubtests")
	fmt.Print("printed without an end of line")
	t.Run("a/b", func(t *testing.T) {
		t.Run("c", func(t *testing.T) { t.Error("in c") })
		t.Error("in a/b")
	})
	t.Run("passes", func(t *testing.T) { t.Log("not shown") })
	t.Cleanup(func() { t.Error("in the cleanup") })
	t.Error("after")
}

func TestFailsInParallel(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			time.Sleep(time.Duration(len(name)) * 20 * time.Millisecond)
			if name == "two" {
				time.Sleep(40 * time.Millisecond)
			}
			t.Log("first")
			time.Sleep(20 * time.Millisecond)
			t.Error("then")
		})
	}
}

func TestPanics(t *testing.T) {
	t.Log("logged")
	t.Run("sub", func(t *testing.T) {
		t.Log("logged, too")
		panic("now")
	})
}
