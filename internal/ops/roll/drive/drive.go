// Package drive carries out rollouts: it watches a cluster, lets package roll decide what should be
// under way, saves the rollout's state, and carries out what was decided.
//
// A driver may be stopped at any time; another one continues from the state. It must not know which
// platform the machines are on, where the state is stored, nor who receives events.
package drive

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/drain"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/platform"
)

// Config is a driver's configuration. Platform, Save, Now and Sleep are required.
type Config struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	Platform
	// Client queries the API server; if nil, it is not queried (roll.Options.CloudOnly).
	Client *kubeclient.Client
	// Server returns the state of the API server itself; nil if Client is.
	Server func(context.Context) (health.Observation, error)
	// Hash returns the hash of the node configuration that the machines of a group should run.
	Hash func(ctx context.Context, group string) (string, error)
	// Save saves a state before it is acted on. Any error except ErrNotKept stops the driver.
	Save func(context.Context, roll.State) error
	// Requests returns what the user wants since the last call; nil if there are no requests.
	Requests func(context.Context) ([]roll.Request, error)
	// RequestsSaved is called when requests are included in a saved state; after an error, Requests returns
	// them again.
	RequestsSaved func(context.Context) error
	// Ask asks the user, and returns one of the question's choices; nil if the user cannot be
	// asked.
	Ask func(context.Context, roll.Question) (string, error)
	// OnChange receives each change of the state; it may be nil.
	OnChange func(before, after roll.State)
	// Etcd returns the health of etcd's members; if nil, it is judged by their pods alone.
	Etcd func(context.Context) (EtcdReport, error)
	// Starts returns the problems of machines that do not start; it may be nil.
	Starts func(context.Context, []platform.Machine) map[string]health.Start
	HTTP   *http.Client
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
}

// EtcdReport reports, for each etcd cluster with recent reports about its members, by the instance
// group of a member, whether it is healthy and votes.
type EtcdReport map[string]map[string]bool

// Platform is what a rollout needs of a platform, for one cluster. A nil function means that the
// platform does not support it; only Machines and Terminate are required.
type Platform struct {
	Machines                      func(context.Context) ([]platform.MachineGroup, error)
	Detach, Deregister, Terminate func(context.Context, platform.Machine) error
	// Update creates a group's missing machines.
	Update func(ctx context.Context, group string) error
}

const (
	// requestTime limits one request, and pageSize is the maximum number of objects per response.
	requestTime = 20 * time.Second
	pageSize    = 500
	// listPause is how long a list of machines is used while nothing changes, and listGap the
	// minimum time between two.
	listPause, listGap = 15 * time.Second, 500 * time.Millisecond
	// serverPause, requestPause and startPause are the times between two checks of the API server, of
	// requests, and of machines that do not start.
	serverPause, requestPause, startPause = 5 * time.Second, 3 * time.Second, 20 * time.Second
	// etcdPause is the time between two reads of etcd's reports, while control planes are rolled.
	etcdPause = 5 * time.Second
	// savePause is the time before another attempt to save the state.
	savePause = 2 * time.Second
	// firstLook is how long the first look at nodes and pods may take.
	firstLook = 20 * time.Second
)

// Driver carries out one rollout. Create one with Start.
type Driver struct {
	Config
	drainer *drain.Drainer
	nodes   *mirror[corev1.Node]
	pods    *mirror[corev1.Pod]
	listing listing
	wake    chan struct{}
	stop    context.CancelFunc
	busy    sync.WaitGroup

	mu         sync.Mutex
	server     health.Observation
	queried    bool // the server was queried
	starts     map[string]health.Start
	etcd       EtcdReport
	requests   []roll.Request
	results    []roll.Result
	running    map[roll.Action]*runningAction
	drains     map[string]evictionBlockers // by machine
	terminated map[string]bool             // machines that were terminated
	state      roll.State
}

// Start starts to watch the cluster. Stop must be called.
func Start(ctx context.Context, cfg Config) *Driver {
	d := newDriver(cfg)
	ctx, d.stop = context.WithCancel(ctx)
	d.run(func() { d.keepListing(ctx) })
	if d.Requests != nil {
		d.repeat(ctx, requestPause, d.readRequests)
	}
	if d.Config.Starts != nil {
		d.repeat(ctx, startPause, d.readStarts)
	}
	if d.Config.Etcd != nil {
		d.repeat(ctx, etcdPause, func(ctx context.Context) {
			if d.atControlPlanes() {
				d.readEtcd(ctx)
			}
		})
	}
	if d.Client != nil {
		d.run(func() { d.nodes.run(ctx, d.Sleep) })
		d.run(func() { d.pods.run(ctx, d.Sleep) })
		d.repeat(ctx, serverPause, d.readServer)
	}
	return d
}

// newDriver returns a driver with everything that its goroutines access, before any of them runs.
func newDriver(cfg Config) *Driver {
	d := &Driver{Config: cfg, wake: make(chan struct{}, 1), starts: map[string]health.Start{},
		running: map[roll.Action]*runningAction{}, drains: map[string]evictionBlockers{}, terminated: map[string]bool{}}
	d.listing.ask = make(chan chan struct{})
	if d.Client != nil {
		d.drainer = &drain.Drainer{Client: d.Client, Now: d.Now, Sleep: d.Sleep}
		d.nodes, d.pods = d.mirrorNodes(), d.mirrorPods()
	}
	return d
}

// Stop stops everything that the driver does, and waits for that. The saved state is not changed.
func (d *Driver) Stop() {
	d.stop()
	d.busy.Wait()
}

func (d *Driver) run(f func()) { d.busy.Go(f) }

// repeat calls f repeatedly, with a pause.
func (d *Driver) repeat(ctx context.Context, pause time.Duration, f func(context.Context)) {
	d.run(func() {
		for {
			f(ctx)
			if d.Sleep(ctx, pause) != nil {
				return
			}
		}
	})
}

// wakeUp triggers another step soon.
func (d *Driver) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// First waits until everything was observed once, and returns the view.
func (d *Driver) First(ctx context.Context) (roll.View, error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(whole, firstLook)
	defer cancel()
	if err := d.list(ctx); err != nil {
		return roll.View{}, err
	}
	if d.Config.Etcd != nil {
		d.readEtcd(ctx)
	}
	for {
		v := d.view()
		if err := whole.Err(); err != nil {
			return v, err
		}
		if v.API || d.Client == nil || ctx.Err() != nil {
			return v, d.listing.problem()
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
		}
	}
}

// Run drives a rollout to its end, and returns its last state. The error is the context's cause, or
// says why the state cannot be saved.
func (d *Driver) Run(ctx context.Context, s roll.State) (roll.State, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // cancels what is under way
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
		if d.OnChange != nil {
			d.OnChange(s, next)
		}
		s = next
		d.dropSaved(s, v)
		if len(v.Requests) > 0 && d.RequestsSaved != nil {
			_ = d.RequestsSaved(ctx) // on an error the requests come again, which is harmless
		}
		d.deleteNodes(ctx, s)
		if !s.Ended.IsZero() {
			return s, nil
		}
		until := d.runActions(ctx, actions)
		if err := d.wait(ctx, until); err != nil {
			return s, context.Cause(ctx)
		}
	}
}

// dropSaved drops the results and requests that a saved state includes.
func (d *Driver) dropSaved(s roll.State, v roll.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
	d.results = d.results[len(v.Results):]
	d.requests = d.requests[len(v.Requests):]
	for _, r := range v.Results {
		delete(d.running, r.Action)
	}
}

// wait waits until something has changed, or until a given time.
func (d *Driver) wait(ctx context.Context, until time.Time) error {
	alarm, cancel := context.WithCancel(ctx)
	var rung sync.WaitGroup
	defer rung.Wait()
	defer cancel()
	if !until.IsZero() {
		rung.Go(func() {
			if d.Sleep(alarm, max(0, until.Sub(d.Now()))) == nil {
				d.wakeUp()
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

// ErrNotKept is wrapped by an error of Config.Save if another attempt may succeed.
var ErrNotKept = errors.New("the state of the rollout was not saved")
