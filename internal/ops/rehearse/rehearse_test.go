package rehearse_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/rehearse"
	"kops.local/kops/internal/platform/rehearsal"
)

// fakeHouse is a stage without machines, which records calls.
type fakeHouse struct {
	dir          string
	refuses      error // error returned by Play
	play         *rehearsal.Play
	closedCalls  int
	closedBefore bool // the emulator was closed before
}

func (h *fakeHouse) Contract() rehearsal.Stage { return rehearsal.Stage{} }
func (h *fakeHouse) Dir() string               { return h.dir }

func (h *fakeHouse) Play(p *rehearsal.Play) error {
	h.play = p
	return h.refuses
}

func (h *fakeHouse) Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	return cmd
}

func (h *fakeHouse) Close(context.Context) error {
	h.closedCalls++
	return nil
}

// world is a platform that can be emulated, and a stage.
type world struct {
	house   *fakeHouse
	lacks   error      // what is missing on the host
	fails   error      // error when the play starts
	breaks  chan error // what ends the play
	stores  []string
	stopped bool // the emulator
}

func newWorld(t *testing.T) *world {
	return &world{house: &fakeHouse{dir: filepath.Join(t.TempDir(), "play")}, breaks: make(chan error, 1)}
}

func (w *world) open(ctx context.Context, cloud string) (*rehearse.Rehearsal, error) {
	all := []rehearsal.Platform{{Name: "cloud", Check: func() error { return w.lacks }, Start: func(_ context.Context, _ rehearsal.Stage, o rehearsal.Options) (*rehearsal.Play, error) {
		w.stores = o.Stores
		keep := func(ctx context.Context) error {
			select {
			case err := <-w.breaks:
				return err
			case <-ctx.Done():
				return nil
			}
		}
		return &rehearsal.Play{Scheme: "s3", Run: keep, Close: func() error {
			w.stopped, w.house.closedBefore = true, w.house.closedCalls > 0
			return nil
		}}, w.fails
	}}}
	stage := func(context.Context, rehearsal.StageOptions) (rehearsal.OpenStage, error) { return w.house, nil }
	return rehearse.Open(ctx, all, stage, cloud, rehearsal.StageOptions{})
}

func TestARehearsalIsOpenedAndClosed(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := w.open(ctx, "cloud")
	if err != nil {
		t.Fatal(err)
	}
	if w.house.play == nil || !slices.Equal(w.stores, []string{rehearse.Store}) {
		t.Errorf("played is %v, with the stores %q", w.house.play, w.stores)
	}
	if info, err := os.Stat(w.house.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info, err)
	}
	out, err := r.Command(ctx, []string{"HOME=/", "KUBECONFIG=/of/the/user"}, "/bin/sh", "-c", "echo $KOPS_REHEARSAL $KOPS_STATE_STORE $KUBECONFIG").Output()
	if want := "cloud s3://" + rehearse.Store + " " + w.house.dir + "/kubeconfig\n"; err != nil || string(out) != want {
		t.Errorf("a command finds %q, %v; want %q", out, err, want)
	}
	cancel() // the play outlives its opener's context: the command may have to shut down in order
	if err := r.Failure(); err != nil || w.stopped {
		t.Errorf("it has ended: %v", err)
	}
	if err := r.Close(t.Context()); err != nil || !w.stopped || w.house.closedBefore || w.house.closedCalls != 1 {
		t.Errorf("closed: %v; emulator %v, stage %d", err, w.stopped, w.house.closedCalls)
	}
}

func TestAFailedStartLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		cloud string
		set   func(*world)
		opens bool
	}{
		"no such cloud":        {"other", func(*world) {}, false},
		"no emulator":          {"cloud", func(w *world) { w.fails = io.ErrUnexpectedEOF }, true},
		"a stage that refuses": {"cloud", func(w *world) { w.house.refuses = io.ErrUnexpectedEOF }, true},
	} {
		w := newWorld(t)
		c.set(w)
		_, err := w.open(t.Context(), c.cloud)
		if err == nil || c.opens != errors.Is(err, io.ErrUnexpectedEOF) || c.opens != (w.house.closedCalls == 1) || w.house.refuses != nil && !w.stopped {
			t.Errorf("%s: %v; stage closed %d times, emulator %v", name, err, w.house.closedCalls, w.stopped)
		}
	}
	w := newWorld(t)
	w.lacks = io.ErrNoProgress
	if _, err := w.open(t.Context(), "cloud"); !errors.Is(err, io.ErrNoProgress) || w.house.closedCalls > 0 || w.stores != nil {
		t.Errorf("on a host that lacks something: %v; stage closed %d times", err, w.house.closedCalls)
	}
	if _, err := newWorld(t).open(t.Context(), "other"); err == nil || err.Error() != "other cannot be emulated on this host" || fault.Remedy(err) != "use one of: cloud" {
		t.Errorf("another cloud: %v", err)
	}
}

func TestAFailedPlayIsReported(t *testing.T) {
	w := newWorld(t)
	r, err := w.open(t.Context(), "cloud")
	if err != nil {
		t.Fatal(err)
	}
	w.breaks <- io.ErrUnexpectedEOF
	<-r.Done()
	if err := r.Failure(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("it failed with %v", err)
	}
	if err := r.Close(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) || w.house.closedCalls != 1 {
		t.Errorf("closed: %v, stage %d", err, w.house.closedCalls)
	}
}
