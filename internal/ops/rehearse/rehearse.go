// Package rehearse plays a platform on this host, for as long as its user wants: it opens
// the stage, starts the play, and runs the user's programs in it.
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
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/rehearsal"
)

// Store is the bucket that is there from the start, for the state of clusters.
const Store = "kops-rehearsal"

// Rehearsal is a platform that is being played.
type Rehearsal struct {
	platform string
	house    rehearsal.House
	play     *rehearsal.Play
	stop     context.CancelFunc
	ended    chan struct{}
	err      error // why the play has ended by itself
}

// Open plays the platform of a name, one of all. The caller closes it.
func Open(ctx context.Context, all []platform.Provider, name string, o rehearsal.HouseOptions) (*Rehearsal, error) {
	played, open := find(all, name)
	if played.Rehearse == nil || open == nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s cannot be played on this host", name), "name one of: "+strings.Join(Playable(all), ", "))
	}
	if played.CanRehearse != nil {
		if err := played.CanRehearse(); err != nil {
			return nil, err
		}
	}
	house, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	var play *rehearsal.Play
	if err = os.MkdirAll(house.Dir(), 0o700); err == nil {
		play, err = played.Rehearse(ctx, house.Contract(), rehearsal.Options{Stores: []string{Store}, Dir: house.Dir()})
	}
	if err != nil {
		return nil, errors.Join(err, house.Close(context.WithoutCancel(ctx)))
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Rehearsal{platform: name, house: house, play: play, stop: stop, ended: make(chan struct{})}
	if err := house.Play(play); err != nil {
		close(r.ended)
		return nil, errors.Join(err, r.Close(ctx))
	}
	go func() {
		defer close(r.ended)
		r.err = play.Keep(ctx)
	}()
	return r, nil
}

// find returns the platform of a name, and how a stage is opened. The first counts, as it
// goes before others of its name.
func find(all []platform.Provider, name string) (played platform.Provider, open func(context.Context, rehearsal.HouseOptions) (rehearsal.House, error)) {
	for _, p := range all {
		if played.Name == "" && string(p.Name) == name {
			played = p
		}
		if open == nil {
			open = p.Stage
		}
	}
	return played, open
}

// Playable lists the platforms that can be played.
func Playable(all []platform.Provider) []string {
	var out []string
	for _, p := range all {
		if p.Rehearse != nil && !slices.Contains(out, string(p.Name)) {
			out = append(out, string(p.Name))
		}
	}
	return out
}

// Command is a program of the user in the rehearsal. env is its environment, NAME=VALUE:
// what programs keep of the world outside, they keep apart here.
func (r *Rehearsal) Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	dir := r.house.Dir()
	env = append(env[:len(env):len(env)], "KOPS_REHEARSAL="+r.platform, "KOPS_STATE_STORE="+r.play.Scheme+"://"+Store, "KOPS_ARCH="+runtime.GOARCH, "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	return r.house.Command(ctx, env, name, args...)
}

// Ended is closed when the play has ended, which it does by itself only when it fails.
func (r *Rehearsal) Ended() <-chan struct{} { return r.ended }

// Failure is why the play has ended; it is nil as long as Ended is not closed.
func (r *Rehearsal) Failure() error {
	select {
	case <-r.ended:
		return r.err
	default:
		return nil
	}
}

// Machines returns the machines of the rehearsal.
func (r *Rehearsal) Machines() rehearsal.Machines { return r.house.Contract().Machines }

// Close ends the play, and removes all that it had of this host. It returns why the play
// had ended by itself, too.
func (r *Rehearsal) Close(ctx context.Context) error {
	r.stop()
	<-r.ended
	return errors.Join(r.err, r.play.Close(), r.house.Close(ctx))
}
