package clusterstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
	"kops.local/kops/internal/store/clusterstore/leasetest"
	"kops.local/kops/internal/store/clusterstore/process"
	"kops.local/kops/internal/store/storetest"
)

const leaseFile = ".kops/" + name + "/lease"

func holder(user string) clusterstore.Holder {
	return clusterstore.Holder{User: user, Host: "host-of-" + user, PID: 42, Command: "kops update cluster --yes"}
}

func acquire(t *testing.T, s *clusterstore.Store, user string) (context.Context, *clusterstore.Lease) {
	t.Helper()
	ctx, l, err := s.Acquire(t.Context(), name, holder(user), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release(context.Background()) })
	return ctx, l
}

// If a server ignores the conditions of writes, no one gets the lease.
func TestNoLeaseWhereConditionsAreIgnored(t *testing.T) {
	state := store.NewMemory("deaf")
	for _, user := range []string{"jane", "joe"} {
		s, err := clusterstore.Open(clusterstore.Config{State: store.WithProof(storetest.UnconditionalStore{Store: state}, &store.Proof{}), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Acquire(t.Context(), name, holder(user), nil); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "ignores If-None-Match") {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// timedStore is a store that enforces conditions by waiting.
type timedStore struct{ store.Store }

func (s timedStore) About() store.About {
	a := s.Store.About()
	a.Timed = true
	return a
}

// Another client's late write takes the lease: its holder does nothing more.
func TestAHolderLooksBeforeEachStepWhereConditionsAreTimed(t *testing.T) {
	state := store.NewMemory("timed")
	s, err := clusterstore.Open(clusterstore.Config{State: timedStore{state}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, lease := acquire(t, s, "jane")
	if err := lease.Hold(t.Context()); err != nil {
		t.Fatalf("a holder: %v", err)
	}
	data, _, err := state.Get(t.Context(), leaseFile)
	if err != nil {
		t.Fatal(err)
	}
	var late clusterstore.LeaseState
	if err := json.Unmarshal(data, &late); err != nil {
		t.Fatal(err)
	}
	late.Holder, late.ID = holder("joe"), "another"
	if data, err = json.Marshal(late); err == nil {
		_, err = state.Put(t.Context(), leaseFile, data, store.PutOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Hold(t.Context()); !errors.Is(err, clusterstore.ErrLost) || !strings.Contains(err.Error(), "of joe on host-of-joe") || ctx.Err() == nil {
		t.Errorf("a holder that was overtaken: %v, %v", err, ctx.Err())
	}
}

func leaseForOne(t *testing.T, w *world) {
	a, b := w.client(t), w.client(t)
	create(t, a, demo(name, 0))
	if h, err := a.LeaseHolder(t.Context(), name); h != nil || err != nil {
		t.Errorf("held by nobody: %v, %v", h, err)
	}
	ctx, first := acquire(t, a, "jane")
	w.Pass(70 * time.Second)
	_, _, err := b.Acquire(t.Context(), name, holder("joe"), nil)
	var held *clusterstore.LeaseHeldError
	if !errors.As(err, &held) || !fault.Is(err, fault.Conflict) {
		t.Fatalf("a second holder: %v", err)
	}
	want := `cluster demo.example.com is being changed by another command: "kops update cluster --yes" of jane on host-of-jane (process 42) has held its lease for 1m10s, and renewed it 1m10s ago`
	if err.Error() != want || !strings.Contains(fault.Remedy(err), "kops toolbox lock break --name demo.example.com --yes") {
		t.Errorf("refused with\n%v, remedy %q, want\n%s", err, fault.Remedy(err), want)
	}
	if h, err := b.LeaseHolder(t.Context(), name); h == nil || h.State.User != "jane" || err != nil {
		t.Errorf("held by %v, %v", h, err)
	}
	if err := first.Check(t.Context()); err != nil || ctx.Err() != nil {
		t.Errorf("the holder: %v, %v", err, ctx.Err())
	}
	for range 2 {
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Check(t.Context()); !errors.Is(err, clusterstore.ErrLost) {
		t.Errorf("check after release: %v", err)
	}
	if ctx.Err() == nil {
		t.Error("the context goes on after release")
	}
	_, second := acquire(t, b, "joe")
	if second.Fence() <= first.Fence() {
		t.Errorf("fence %d after %d", second.Fence(), first.Fence())
	}
	w.put(t, leaseFile, "damaged")
	if err := second.Check(t.Context()); !errors.Is(err, clusterstore.ErrLost) {
		t.Errorf("check of a damaged lease: %v", err)
	}
	if _, l, err := a.Acquire(t.Context(), name, holder("jane"), nil); err != nil {
		t.Errorf("a damaged lease stops everybody: %v", err)
	} else if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A command that finds out under the lease that the cluster does not exist leaves nothing behind.
func TestLeaseOfNoClusterLeavesNothing(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	_, l := acquire(t, s, "jane")
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := w.raw(t); keys != nil {
		t.Errorf("left: %q", keys)
	}
	_, l = acquire(t, s, "jane")
	create(t, s, demo(name, 0))
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, l = acquire(t, s, "jane"); l.Fence() != 2 {
		t.Errorf("fence %d of the second lease of a cluster", l.Fence())
	}
}

func leaseRace(t *testing.T, w *world) {
	for range 3 {
		var won atomic.Int32
		var all sync.WaitGroup
		leases := make(chan *clusterstore.Lease, 8)
		for i := range cap(leases) {
			s := w.client(t)
			all.Go(func() {
				_, l, err := s.Acquire(t.Context(), name, holder(fmt.Sprint(i)), nil)
				var held *clusterstore.LeaseHeldError
				switch {
				case err == nil:
					won.Add(1)
					leases <- l
				case !errors.As(err, &held):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := won.Load(); n != 1 {
			t.Errorf("%d of %d hold the lease", n, cap(leases))
		}
		close(leases)
		for l := range leases {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// Another process takes the lease between our read and our write.
func TestLeaseTakenInBetween(t *testing.T) {
	for _, was := range []string{"no lease", "a free lease", "a lease that has ended"} {
		w := inMemory()
		create(t, w.client(t), demo(name, 0))
		if was != "no lease" {
			_, l := acquire(t, w.client(t), "jack")
			if was == "a free lease" {
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Pass(time.Hour)
		var first *clusterstore.Lease
		slow := &storetest.RacingStore{Store: w.open(), Before: func() { _, first = acquire(t, w.client(t), "jane") }}
		_, _, err := w.client(t, func(c *clusterstore.Config) { c.State = slow }).Acquire(t.Context(), name, holder("joe"), nil)
		var held *clusterstore.LeaseHeldError
		if !errors.As(err, &held) || held.State.User != "jane" {
			t.Errorf("%s: %v", was, err)
		}
		if err := first.Check(t.Context()); err != nil {
			t.Errorf("%s: the first holder: %v", was, err)
		}
	}
}

func leaseExpires(t *testing.T, w *world) {
	_, first := acquire(t, w.client(t), "jane") // it is never renewed
	other := w.client(t)
	w.Pass(75 * time.Second)
	if _, _, err := other.Acquire(t.Context(), name, holder("joe"), nil); err == nil {
		t.Fatal("the lease was taken before its end and the allowance for clocks")
	}
	w.Pass(10 * time.Second)
	var reports []string
	_, second, err := w.client(t).Acquire(t.Context(), name, holder("joe"), func(h *clusterstore.LeaseHeldError, d time.Duration) func() {
		reports = append(reports, fmt.Sprintf("%s held by %s, renewed %v ago, watched for %v at %v", h.Cluster, h.State.User, h.Idle, d, w.Now().Sub(h.State.Renewed)))
		return func() { reports = append(reports, fmt.Sprintf("over at %v", w.Now().Sub(h.State.Renewed))) }
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{name + " held by jane, renewed 1m25s ago, watched for 20s at 1m25s", "over at 1m45s"}; !slices.Equal(reports, want) {
		t.Errorf("told is %q, want %q", reports, want)
	}
	if second.Fence() != first.Fence()+1 {
		t.Errorf("fence %d after %d", second.Fence(), first.Fence())
	}
	err = first.Check(t.Context())
	if !errors.Is(err, clusterstore.ErrLost) || !strings.Contains(err.Error(), "joe on host-of-joe") {
		t.Errorf("the first holder comes back: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
	if err := second.Check(t.Context()); err != nil {
		t.Errorf("the release of a lost lease took away the new one: %v", err)
	}
}

func leaseBroken(t *testing.T, w *world) {
	tick, waits := make(chan struct{}), make(chan struct{}, 1)
	s := w.client(t, func(c *clusterstore.Config) {
		c.Sleep = func(ctx context.Context, d time.Duration) error {
			if d != clusterstore.LeaseRenewal {
				t.Errorf("renewal after %v", d)
			}
			waits <- struct{}{}
			select {
			case <-tick:
				w.Pass(d)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	ctx, l := acquire(t, s, "jane")
	for range 8 { // far beyond the term
		<-waits
		tick <- struct{}{}
	}
	<-waits // the last renewal is finished
	if err := l.Check(t.Context()); err != nil || ctx.Err() != nil {
		t.Fatalf("a renewed lease: %v, %v", err, ctx.Err())
	}
	if _, _, err := w.client(t).Acquire(t.Context(), name, holder("joe"), nil); err == nil {
		t.Fatal("a renewed lease was taken")
	}
	other := w.client(t)
	if err := other.Break(t.Context(), clusterstore.Holder{}, name); err != nil {
		t.Fatal(err)
	}
	if err := other.Break(t.Context(), clusterstore.Holder{}, "unheard-of.example.com"); err != nil {
		t.Errorf("breaking no lease: %v", err)
	}
	_, second := acquire(t, other, "joe")
	if second.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", second.Fence(), l.Fence())
	}
	tick <- struct{}{}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, clusterstore.ErrLost) || !strings.Contains(cause.Error(), "joe") {
		t.Errorf("the context of the first ended with %v", cause)
	}
}

// If the store cannot be reached the holder stops at the end of its term, and not before.
func TestLeaseOfUnreachableStoreIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory()
		create(t, w.client(t), demo(name, 0))
		cut := &cuttableStore{Store: w.open()}
		s := w.client(t, func(c *clusterstore.Config) { c.State, c.Now, c.Sleep = cut, time.Now, nil })
		ctx, l, err := s.Acquire(t.Context(), name, holder("jane"), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		cut.set(true)
		time.Sleep(40 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("lost at once: %v", context.Cause(ctx))
		}
		cut.set(false)
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatalf("lost although the store came back: %v", context.Cause(ctx))
		}
		cut.set(true)
		begin := time.Now()
		<-ctx.Done()
		if d := time.Since(begin); d < 45*time.Second || d > 65*time.Second {
			t.Errorf("given up after %v", d)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, clusterstore.ErrLost) || !errors.Is(cause, errCut) {
			t.Errorf("cause %v", cause)
		}
		if err := l.Release(t.Context()); !errors.Is(err, errCut) {
			t.Errorf("release: %v", err)
		}
	})
}

// Each write of the lease reaches the store, but its answer is lost.
func TestLeaseSurvivesLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory()
		deaf := &cuttableStore{Store: w.open(), after: true}
		s := w.client(t, func(c *clusterstore.Config) { c.State, c.Now, c.Sleep = deaf, time.Now, nil })
		ctx, l, err := s.Acquire(t.Context(), name, holder("jane"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			deaf.set(true)
			time.Sleep(20 * time.Second)
			deaf.set(false)
			time.Sleep(20 * time.Second)
		}
		if ctx.Err() != nil {
			t.Errorf("lost: %v", context.Cause(ctx))
		}
		if err := l.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The answer to the write that takes the lease is lost; no other process has it.
func TestLeaseThatWasTakenUnheard(t *testing.T) {
	for _, done := range []bool{true, false} {
		w := inMemory()
		create(t, w.client(t), demo(name, 0))
		s := w.client(t, func(c *clusterstore.Config) { c.State = &lostAnswerStore{Store: w.open(), done: done} })
		_, l := acquire(t, s, "jane")
		if err := l.Check(t.Context()); err != nil || l.Fence() != 1 {
			t.Errorf("written %v: %v, fence %d", done, err, l.Fence())
		}
	}
}

// The state store answers reads, but never a write.
func TestLeaseOfAStoreThatAnswersNoWrite(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 0))
	s := w.client(t, func(c *clusterstore.Config) { c.State = unreachableStore{w.open()} })
	if _, _, err := s.Acquire(t.Context(), name, holder("jane"), nil); !fault.Is(err, fault.Lost) || !strings.Contains(err.Error(), "the connection broke") {
		t.Errorf("%s: %v", fault.Of(err), err)
	}
}

func TestLeaseOutlivesTheContext(t *testing.T) {
	w := inMemory()
	ctx, cancel := context.WithCancel(t.Context())
	held, l, err := w.client(t).Acquire(ctx, name, holder("jane"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-held.Done()
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if h, err := w.client(t).LeaseHolder(t.Context(), name); h != nil || err != nil {
		t.Errorf("after the release held by %v, %v", h, err)
	}
}

// A process that is killed leaves its lease; on the same machine it is known to have exited.
func TestLeaseOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHoldLeaseUntilKilled$")
	cmd.Env = append(os.Environ(), "HOLD_LEASE_IN="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "holding\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	w := &world{open: func() store.Store { return store.NewFolder(dir) }, Clock: leasetest.New(time.Now())}
	s := w.client(t, func(c *clusterstore.Config) { c.ProcessEnded = process.HasEnded })
	var held *clusterstore.LeaseHeldError
	if _, _, err := s.Acquire(t.Context(), name, holder("joe"), nil); !errors.As(err, &held) || held.State.PID != cmd.Process.Pid {
		t.Fatalf("while the other lives: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed
	acquire(t, s, "joe")
}

// TestHoldLeaseUntilKilled is the other process of TestLeaseOfAKilledProcess.
func TestHoldLeaseUntilKilled(t *testing.T) {
	dir := os.Getenv("HOLD_LEASE_IN")
	if dir == "" {
		t.Skip("run by TestLeaseOfAKilledProcess")
	}
	w := &world{open: func() store.Store { return store.NewFolder(dir) }, Clock: leasetest.New(time.Now())}
	h := holder("jane")
	h.PID, h.Process = os.Getpid(), process.Self()
	if _, _, err := w.client(t).Acquire(t.Context(), name, h, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Println("holding")
	select {}
}

// A store that does not answer stops the holder just as one that returns errors does, whether or not its
// client respects the context.
func TestLeaseOfSilentStoreIsLost(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := inMemory()
			create(t, w.client(t), demo(name, 0))
			silent := &silentStore{Store: w.open(), deaf: deaf, answer: make(chan struct{})}
			s := w.client(t, func(c *clusterstore.Config) { c.State, c.Now, c.Sleep = silent, time.Now, nil })
			ctx, l, err := s.Acquire(t.Context(), name, holder("jane"), nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			silent.on.Store(true)
			begin := time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
				t.Error("the holder goes on")
			}
			if d := time.Since(begin); d < 45*time.Second || d > 65*time.Second {
				t.Errorf("given up after %v", d)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, clusterstore.ErrLost) {
				t.Errorf("cause %v", cause)
			}
			silent.on.Store(false)
			close(silent.answer)
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
}

// A renewal that hangs, as on a dead connection, is retried on another connection.
func TestLeaseSurvivesAHungRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &silentStore{Store: inMemory().open()}
		s, err := clusterstore.Open(clusterstore.Config{State: silent, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		ctx, l, err := s.Acquire(t.Context(), name, holder("jane"), nil)
		if err != nil {
			t.Fatal(err)
		}
		silent.on.Store(true)
		time.Sleep(20 * time.Second) // a renewal has begun
		silent.on.Store(false)
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Errorf("lost: %v", context.Cause(ctx))
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// If the clock of the holder or of a contender is minutes wrong, a live holder does not lose its
// lease.
func TestLeaseOfAWrongClock(t *testing.T) {
	at := func(wrong time.Duration) func(*clusterstore.Config) {
		return func(c *clusterstore.Config) {
			c.Now, c.Sleep = func() time.Time { return time.Now().Add(wrong) }, nil
		}
	}
	for _, wrong := range []time.Duration{-14 * time.Minute, 0, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := inMemory()
			create(t, w.client(t), demo(name, 0))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			held, l, err := w.client(t, at(0)).Acquire(ctx, name, holder("jane"), nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Second)
			other := w.client(t, at(wrong))
			var taken *clusterstore.LeaseHeldError
			if _, _, err := other.Acquire(t.Context(), name, holder("joe"), nil); !errors.As(err, &taken) {
				t.Fatalf("%v off: %v", wrong, err)
			}
			if age, idle := taken.Age, taken.Idle; age < 45*time.Second || age > 70*time.Second || idle < 0 || idle > 20*time.Second {
				t.Errorf("%v off: held for %v, idle for %v", wrong, age, idle)
			}
			if h, err := other.LeaseHolder(t.Context(), name); h == nil || h.State.User != "jane" || err != nil {
				t.Errorf("%v off: held by %v, %v", wrong, h, err)
			}
			if held.Err() != nil || l.Check(t.Context()) != nil {
				t.Errorf("%v off: the holder has lost it: %v", wrong, context.Cause(held))
			}
			cancel() // and the process with it
			time.Sleep(leaseEnd + max(-wrong, 0))
			begin := time.Now()
			_, second, err := other.Acquire(t.Context(), name, holder("joe"), nil)
			if err != nil {
				t.Fatalf("%v off, after the end: %v", wrong, err)
			}
			if d := time.Since(begin); d > 25*time.Second {
				t.Errorf("%v off: watched for %v", wrong, d)
			}
			if err := second.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// leaseEnd is when a lease that is not renewed may be taken, if clocks agree.
const leaseEnd = 80 * time.Second

// If every write of the lease conflicts, as in a store that does not enforce conditions, the attempts end.
func TestRestlessLease(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 0))
	_, l := acquire(t, w.client(t), "jane")
	s := w.client(t, func(c *clusterstore.Config) {
		c.State = failingPutsStore{w.open(), fault.New(fault.Conflict, "somebody was quicker")}
	})
	if err := s.Break(t.Context(), clusterstore.Holder{}, name); !fault.Is(err, fault.Conflict) || fault.Remedy(err) == "" {
		t.Errorf("break: %v, remedy %q", err, fault.Remedy(err))
	}
	if _, err := s.Append(t.Context(), l, load(t, w.client(t)), clusterstore.Revision{Result: "done"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("append: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	var held *clusterstore.LeaseHeldError
	if _, _, err := s.Acquire(t.Context(), name, holder("joe"), nil); !fault.Is(err, fault.Conflict) || errors.As(err, &held) {
		t.Errorf("acquire: %v", err)
	}
	for _, bad := range []string{"", "a/b", ".kops", ".."} {
		if err := w.client(t).Break(t.Context(), clusterstore.Holder{}, bad); !fault.Is(err, fault.Permanent) {
			t.Errorf("break of %q: %v", bad, err)
		}
	}
}
