package drive

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/platform"
)

// errExpired ends a watch after which all has to be listed again.
var errExpired = errors.New("the watch cannot be continued")

func (d *Driver) mirrorNodes() *mirror[corev1.Node] {
	nodes := d.Client.CoreV1().Nodes()
	return &mirror[corev1.Node]{watch: nodes.Watch, changed: d.nodeChanged,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, []corev1.Node, error) {
			l, err := nodes.List(ctx, o)
			if err != nil {
				return nil, nil, err
			}
			return l, l.Items, nil
		}}
}

// mirrorPods are the pods that health is judged by.
func (d *Driver) mirrorPods() *mirror[corev1.Pod] {
	pods := d.Client.CoreV1().Pods("")
	return &mirror[corev1.Pod]{watch: pods.Watch, keep: health.Counts, changed: func(_, _ *corev1.Pod) { d.poke() },
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, []corev1.Pod, error) {
			l, err := pods.List(ctx, o)
			if err != nil {
				return nil, nil, err
			}
			return l, l.Items, nil
		}}
}

// nodeChanged has the machines listed when a node comes, goes or becomes ready: what it
// is the node of may have changed.
func (d *Driver) nodeChanged(before, after *corev1.Node) {
	if (before == nil) != (after == nil) || before != nil && after != nil && (health.Unready(before) == "") != (health.Unready(after) == "") {
		d.listing.soon()
	}
	d.poke()
}

// listing is the platform's machines as they were listed last.
type listing struct {
	ask chan chan struct{} // who asks is told when a listing that began later is over

	mu     sync.Mutex
	groups []platform.MachineGroup
	err    error
	known  bool
	wanted bool // by nobody who waits
}

func (l *listing) look() ([]platform.MachineGroup, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups, l.known && l.err == nil
}

func (l *listing) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// soon has the machines listed with the next pass of keepListing.
func (l *listing) soon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
}

func (l *listing) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.wanted
	l.wanted = false
	return due
}

// list waits for a listing that begins after it was called.
func (d *Driver) list(ctx context.Context) error {
	over := make(chan struct{})
	select {
	case d.listing.ask <- over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-over:
		return d.listing.problem()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keepListing lists the machines when somebody asks, when nodes changed, and now and then.
func (d *Driver) keepListing(ctx context.Context) {
	ticks := make(chan struct{})
	d.run(func() {
		for d.Sleep(ctx, listGap) == nil {
			select {
			case ticks <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	var waiting []chan struct{}
	last := d.Now().Add(-listPause)
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-d.listing.ask:
			waiting = append(waiting, one)
			if d.Now().Sub(last) < listGap {
				continue // others may ask, too
			}
		case <-ticks:
		}
		if due := d.listing.due(); len(waiting) == 0 && !due && d.Now().Sub(last) < listPause {
			continue
		}
		d.listOnce(ctx)
		last = d.Now()
		for _, w := range waiting {
			close(w)
		}
		waiting = nil
		d.poke()
	}
}

func (d *Driver) listOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*requestTime)
	defer cancel()
	groups, err := d.Machines(ctx)
	d.listing.mu.Lock()
	defer d.listing.mu.Unlock()
	d.listing.err = err
	if err == nil {
		d.listing.groups, d.listing.known = groups, true
	}
}

func (d *Driver) readServer(ctx context.Context) {
	seen, err := d.Server(ctx)
	if err != nil {
		return // ctx has ended
	}
	d.mu.Lock()
	was, first := d.server, !d.asked
	d.server, d.asked = seen, true
	d.mu.Unlock()
	if first || (was.Problem == nil) != (seen.Problem == nil) || len(was.Unready) != len(seen.Unready) {
		d.poke()
	}
}

// atControlPlanes reports that a control plane is being rolled, or comes next.
func (d *Driver) atControlPlanes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.state.Groups, func(g roll.Group) bool { return g.Ended.IsZero() })
	return i >= 0 && d.state.Groups[i].Stage == roll.ControlPlanes
}

// readEtcd reads the reports about etcd. Unreadable reports are dropped.
func (d *Driver) readEtcd(ctx context.Context) {
	told, err := d.Config.Etcd(ctx)
	if err != nil {
		told = nil
	}
	d.mu.Lock()
	same := reflect.DeepEqual(d.etcd, told)
	d.etcd = told
	d.mu.Unlock()
	if !same {
		d.poke()
	}
}

func (d *Driver) readWishes(ctx context.Context) {
	wishes, err := d.Wishes(ctx)
	if err != nil || len(wishes) == 0 {
		return // they stay where they are until they can be read
	}
	d.mu.Lock()
	d.wishes = append(d.wishes, wishes...)
	d.mu.Unlock()
	d.poke()
}

// readStarts asks running machines without nodes how far their start came.
func (d *Driver) readStarts(ctx context.Context) {
	groups, _ := d.listing.look()
	if d.Client == nil {
		return
	}
	nodes, fresh := d.nodes.look()
	if !fresh {
		return
	}
	var silent []platform.Machine
	for _, g := range groups {
		for _, m := range g.Machines {
			if n := health.NodeOf(m, nodes); !m.Spare && (n == nil || health.Unready(n) != "") {
				silent = append(silent, m)
			}
		}
	}
	if len(silent) == 0 {
		return
	}
	starts := d.Config.Look(ctx, silent)
	d.mu.Lock()
	d.starts = starts
	d.mu.Unlock()
	d.poke()
}
