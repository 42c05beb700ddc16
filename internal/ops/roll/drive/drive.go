// Package drive carries rollouts out: it watches a cluster, has package roll decide what
// should be under way, keeps the rollout's state, and does what was decided.
//
// A driver may be ended at any time, and another one goes on from the state. It must not
// know which platform the machines are of, where the state is kept, nor who receives events.
package drive

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/drain"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/platform"
)

// Config is what a driver works on. Platform, Save, Now and Sleep are needed.
type Config struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	Platform
	// Client asks the API server; nil: it is not asked (roll.Options.CloudOnly).
	Client kubernetes.Interface
	// Server tells how the API server itself is; nil as Client.
	Server func(context.Context) (health.Seen, error)
	// Hash returns the hash of the node configuration that the machines of a group should run.
	Hash func(ctx context.Context, group string) (string, error)
	// Save keeps a state before it is acted on. Another error than ErrNotKept ends the driver.
	Save func(context.Context, roll.State) error
	// Wishes returns what the user wants since it was last called; nil: nothing is wished.
	Wishes func(context.Context) ([]roll.Wish, error)
	// Heard is called when wishes are taken up in a state that was saved; an error means that they come again.
	Heard func(context.Context) error
	// Ask asks the user, and returns one of the question's choices; nil: nobody can be asked.
	Ask func(context.Context, roll.Question) (string, error)
	// Tell receives each change of the state; nil: nobody does.
	Tell func(before, after roll.State)
	// Etcd says how the members of etcd are; nil: nobody can tell, and their pods do.
	Etcd func(context.Context) (EtcdTold, error)
	// Look returns the problems of machines that do not start; nil: nothing is known.
	Look  func(context.Context, []platform.Machine) map[string]health.Start
	HTTP  *http.Client
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// EtcdTold says, for each etcd cluster with recent reports about its members, by the instance
// group of a member, whether it is healthy and votes.
type EtcdTold map[string]map[string]bool

// Platform is what of a platform a rollout needs, on one cluster. A nil function is not
// supported, and the rollout does without, but for Machines and Terminate.
type Platform struct {
	Machines                      func(context.Context) ([]platform.MachineGroup, error)
	Detach, Deregister, Terminate func(context.Context, platform.Machine) error
	// Update makes the machines that a group lacks.
	Update func(ctx context.Context, group string) error
}

const (
	// requestTime bounds one request, and pageSize is how many objects one answer holds.
	requestTime = 20 * time.Second
	pageSize    = 500
	// listPause is how long the listing of machines serves while nothing changes, and
	// listGap the least time between two.
	listPause, listGap = 15 * time.Second, 500 * time.Millisecond
	// serverPause, wishPause and startPause are between two looks at the API server, for
	// wishes, and at machines that do not start.
	serverPause, wishPause, startPause = 5 * time.Second, 3 * time.Second, 20 * time.Second
	// etcdPause is the time between two reads of etcd's reports, while control planes are rolled.
	etcdPause = 5 * time.Second
	// savePause is before another try to keep the state.
	savePause = 2 * time.Second
	// firstLook is how long the first look at nodes and pods may take.
	firstLook = 20 * time.Second
)

// Driver carries out one rollout. Make one with Start.
type Driver struct {
	Config
	drainer *drain.Drainer
	nodes   *mirror[corev1.Node]
	pods    *mirror[corev1.Pod]
	listing listing
	wake    chan struct{}
	stop    context.CancelFunc
	busy    sync.WaitGroup

	mu      sync.Mutex
	server  health.Seen
	asked   bool // the server was
	starts  map[string]health.Start
	etcd    EtcdTold
	wishes  []roll.Wish
	results []roll.Result
	doing   map[roll.Action]*deed
	drains  map[string]blocked // by machine
	ended   map[string]bool    // machines that were terminated
	state   roll.State
}

// Start begins to watch the cluster. Stop must be called.
func Start(ctx context.Context, cfg Config) *Driver {
	ctx, stop := context.WithCancel(ctx)
	d := &Driver{Config: cfg, wake: make(chan struct{}, 1), stop: stop, starts: map[string]health.Start{},
		doing: map[roll.Action]*deed{}, drains: map[string]blocked{}, ended: map[string]bool{}}
	d.listing.ask = make(chan chan struct{})
	if d.Client != nil { // before anything runs that looks at them
		d.drainer = &drain.Drainer{Client: d.Client, Now: d.Now, Sleep: d.Sleep}
		d.nodes, d.pods = d.mirrorNodes(), d.mirrorPods()
	}
	d.run(func() { d.keepListing(ctx) })
	if d.Wishes != nil {
		d.every(ctx, wishPause, d.readWishes)
	}
	if d.Config.Look != nil {
		d.every(ctx, startPause, d.readStarts)
	}
	if d.Config.Etcd != nil {
		d.every(ctx, etcdPause, func(ctx context.Context) {
			if d.atControlPlanes() {
				d.readEtcd(ctx)
			}
		})
	}
	if d.Client != nil {
		d.run(func() { d.nodes.run(ctx, d.Sleep) })
		d.run(func() { d.pods.run(ctx, d.Sleep) })
		d.every(ctx, serverPause, d.readServer)
	}
	return d
}

// Stop ends all that the driver does, and waits for it. The state stays as it was saved.
func (d *Driver) Stop() {
	d.stop()
	d.busy.Wait()
}

func (d *Driver) run(f func()) { d.busy.Go(f) }

// every runs f again and again.
func (d *Driver) every(ctx context.Context, pause time.Duration, f func(context.Context)) {
	d.run(func() {
		for {
			f(ctx)
			if d.Sleep(ctx, pause) != nil {
				return
			}
		}
	})
}

// poke has the state stepped soon.
func (d *Driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// First waits until all was seen once, and returns that.
func (d *Driver) First(ctx context.Context) (roll.View, error) {
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	if err := d.list(ctx); err != nil {
		return roll.View{}, err
	}
	if d.Config.Etcd != nil {
		d.readEtcd(ctx)
	}
	for {
		v := d.view()
		if v.API || d.Client == nil || ctx.Err() != nil {
			return v, d.listing.problem()
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
		}
	}
}

// Run drives a rollout until it has ended, and returns its last state. The error is the
// context's cause, or says why the state cannot be kept.
func (d *Driver) Run(ctx context.Context, s roll.State) (roll.State, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what is under way
	d.mu.Lock()
	d.state = s
	d.mu.Unlock()
	for kept := false; ; {
		v := d.view()
		next, actions := roll.Step(s, v)
		if !kept || !reflect.DeepEqual(next, s) {
			err := d.Save(ctx, next)
			if errors.Is(err, ErrNotKept) && ctx.Err() == nil {
				if err := d.Sleep(ctx, savePause); err == nil {
					continue
				}
			}
			if ctx.Err() != nil {
				return s, context.Cause(ctx)
			}
			if err != nil {
				return s, err
			}
			kept = true
		}
		if d.Tell != nil {
			d.Tell(s, next)
		}
		s = next
		d.settle(s, v)
		if len(v.Wishes) > 0 && d.Heard != nil {
			_ = d.Heard(ctx) // they come again, which does no harm
		}
		d.sweep(ctx, s)
		if !s.Ended.IsZero() {
			return s, nil
		}
		until := d.carry(ctx, actions)
		if err := d.wait(ctx, until); err != nil {
			return s, context.Cause(ctx)
		}
	}
}

// settle forgets what the state has taken up.
func (d *Driver) settle(s roll.State, v roll.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
	d.results = d.results[len(v.Results):]
	d.wishes = d.wishes[len(v.Wishes):]
	for _, r := range v.Results {
		delete(d.doing, r.Action)
	}
}

// wait waits until something has changed, or a time has come.
func (d *Driver) wait(ctx context.Context, until time.Time) error {
	alarm, cancel := context.WithCancel(ctx)
	var rung sync.WaitGroup
	defer rung.Wait()
	defer cancel()
	if !until.IsZero() {
		rung.Go(func() {
			if d.Sleep(alarm, max(0, until.Sub(d.Now()))) == nil {
				d.poke()
			}
		})
	}
	select {
	case <-d.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNotKept is wrapped by an error of Config.Save after which another try may succeed.
var ErrNotKept = errors.New("the state of the rollout was not saved")
