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

// errExpired ends a watch that cannot be continued without listing everything again.
var errExpired = errors.New("the watch cannot be continued")

func (d *Driver) mirrorNodes() *mirror[corev1.Node] {
	nodes := d.Client.Nodes()
	return &mirror[corev1.Node]{watch: nodes.Watch, changed: d.nodeChanged,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, []corev1.Node, error) {
			l, err := nodes.List(ctx, o)
			if err != nil {
				return nil, nil, err
			}
			return l, l.Items, nil
		}}
}

// mirrorPods returns the mirror of the pods by which health is judged.
func (d *Driver) mirrorPods() *mirror[corev1.Pod] {
	pods := d.Client.Pods("")
	return &mirror[corev1.Pod]{watch: pods.Watch, keep: health.IsObserved, changed: func(_, _ *corev1.Pod) { d.wakeUp() },
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, []corev1.Pod, error) {
			l, err := pods.List(ctx, o)
			if err != nil {
				return nil, nil, err
			}
			return l, l.Items, nil
		}}
}

// nodeChanged triggers a listing of the machines when a node is added, is deleted or becomes ready:
// the state of its machine may have changed.
func (d *Driver) nodeChanged(before, after *corev1.Node) {
	if (before == nil) != (after == nil) || before != nil && after != nil && (health.Unready(before) == "") != (health.Unready(after) == "") {
		d.listing.refreshSoon()
	}
	d.wakeUp()
}

// listing is the result of the last listing of the platform's machines.
type listing struct {
	ask chan chan struct{} // each caller's channel is closed after a listing that began later

	mu     sync.Mutex
	groups []platform.MachineGroup
	err    error
	known  bool
	wanted bool // requested by soon, for which no caller waits
}

func (l *listing) groupsNow() ([]platform.MachineGroup, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups, l.known && l.err == nil
}

func (l *listing) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// refreshSoon triggers a listing of the machines with the next pass of keepListing.
func (l *listing) refreshSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
}

func (l *listing) isDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.wanted
	l.wanted = false
	return due
}

// list waits for a listing that begins after the call.
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

// keepListing lists the machines on request, after changes of nodes, and from time to time.
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
				continue // to combine it with other requests
			}
		case <-ticks:
		}
		if due := d.listing.isDue(); len(waiting) == 0 && !due && d.Now().Sub(last) < listPause {
			continue
		}
		d.listOnce(ctx)
		last = d.Now()
		for _, w := range waiting {
			close(w)
		}
		waiting = nil
		d.wakeUp()
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
	was, first := d.server, !d.queried
	d.server, d.queried = seen, true
	d.mu.Unlock()
	if first || (was.Problem == nil) != (seen.Problem == nil) || len(was.Unready) != len(seen.Unready) {
		d.wakeUp()
	}
}

// atControlPlanes reports whether a control plane is being rolled, or comes next.
func (d *Driver) atControlPlanes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.state.Groups, func(g roll.Group) bool { return g.Ended.IsZero() })
	return i >= 0 && d.state.Groups[i].Stage == roll.ControlPlanes
}

// readEtcd reads the reports about etcd. Unreadable reports are dropped.
func (d *Driver) readEtcd(ctx context.Context) {
	reports, err := d.Config.Etcd(ctx)
	if err != nil {
		reports = nil
	}
	d.mu.Lock()
	same := reflect.DeepEqual(d.etcd, reports)
	d.etcd = reports
	d.mu.Unlock()
	if !same {
		d.wakeUp()
	}
}

func (d *Driver) readRequests(ctx context.Context) {
	requests, err := d.Requests(ctx)
	if err != nil || len(requests) == 0 {
		return // they stay in place until they can be read
	}
	d.mu.Lock()
	d.requests = append(d.requests, requests...)
	d.mu.Unlock()
	d.wakeUp()
}

// readStarts finds out how far running machines without nodes have started.
func (d *Driver) readStarts(ctx context.Context) {
	groups, _ := d.listing.groupsNow()
	if d.Client == nil {
		return
	}
	nodes, fresh := d.nodes.objects()
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
	starts := d.Config.Starts(ctx, silent)
	d.mu.Lock()
	d.starts = starts
	d.mu.Unlock()
	d.wakeUp()
}
