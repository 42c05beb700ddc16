// Package rehearse emulates a platform on this host, for as long as its user wants: it opens the
// stage, starts the emulation ("play"), and runs the user's programs in it.
//
// It must not know any platform.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
)

// Store is the bucket for the state of clusters, which exists from the start.
const Store = "kops-rehearsal"

// Rehearsal is a platform that is being emulated.
type Rehearsal struct {
	platform string
	house    rehearsal.OpenStage
	play     *rehearsal.Play
	stop     context.CancelFunc
	done     chan struct{}
	err      error // why the play has ended on its own
}

// Open starts the emulation of the platform with a given name on a stage. The caller must close it.
func Open(ctx context.Context, all []rehearsal.Platform, open rehearsal.Opener, name string, o rehearsal.StageOptions) (*Rehearsal, error) {
	i := slices.IndexFunc(all, func(p rehearsal.Platform) bool { return p.Name == name })
	if i < 0 {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s cannot be emulated on this host", name), "use one of: "+strings.Join(Names(all), ", "))
	}
	if err := all[i].Check(); err != nil {
		return nil, err
	}
	house, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	var play *rehearsal.Play
	if err = os.MkdirAll(house.Dir(), 0o700); err == nil {
		play, err = all[i].Start(ctx, house.Contract(), rehearsal.Options{Stores: []string{Store}, Dir: house.Dir()})
	}
	if err != nil {
		return nil, errors.Join(err, house.Close(context.WithoutCancel(ctx)))
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Rehearsal{platform: name, house: house, play: play, stop: stop, done: make(chan struct{})}
	if err := house.Play(play); err != nil {
		close(r.done)
		return nil, errors.Join(err, r.Close(ctx))
	}
	go func() {
		defer close(r.done)
		r.err = play.Run(ctx)
	}()
	return r, nil
}

// Names lists the names of platforms.
func Names(all []rehearsal.Platform) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out
}

// Command returns one of the user's programs, to be run in the rehearsal. env is its environment,
// NAME=VALUE; kubeconfig and cache are separate from the user's own.
func (r *Rehearsal) Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	dir := r.house.Dir()
	env = append(env[:len(env):len(env)], "KOPS_REHEARSAL="+r.platform, "KOPS_STATE_STORE="+r.play.Scheme+"://"+Store, "KOPS_ARCH="+runtime.GOARCH, "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	return r.house.Command(ctx, env, name, args...)
}

// Done is closed when the play has ended. It only ends on its own if it fails.
func (r *Rehearsal) Done() <-chan struct{} { return r.done }

// Failure returns why the play has ended; it is nil until Ended is closed.
func (r *Rehearsal) Failure() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Machines returns the machines of the rehearsal.
func (r *Rehearsal) Machines() rehearsal.Machines { return r.house.Contract().Machines }

// Close ends the play, and removes everything that it created on this host. If the play had ended
// on its own, the error includes the reason.
func (r *Rehearsal) Close(ctx context.Context) error {
	r.stop()
	<-r.done
	return errors.Join(r.err, r.play.Close(), r.house.Close(ctx))
}
