package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

const (
	// mostMemory is the maximum private memory of all machines of the cluster, in bytes.
	mostMemory = 1600 << 20

	writePeriod = 50 * time.Millisecond
	// tryTime is the time limit of one attempt of a write; writeTime is how long it is retried.
	tryTime, writeTime = 10 * time.Second, time.Minute
	// calm is how long writes continue before and after a fault.
	calm = 5 * time.Second
)

// TestHighlyAvailable kills the machine of etcd's leader, one of three, under writes: another one replaces it,
// and no acknowledged write is lost.
func TestHighlyAvailable(t *testing.T) {
	localtest.ClusterTurn(t, 3, 4)
	w := newWorld(t)
	w.create("--control-plane-count", "3", "--node-count", "2")
	w.checkUnchanged()
	if memory := w.measureMachines(); memory > mostMemory {
		w.Errorf("all machines have %d MB of memory, and may have %d", memory>>20, mostMemory>>20)
	}
	leader := w.etcdMembers()
	before := w.machines(leader.Group)
	wr := w.write()
	w.wait("writes before", clusterTime, func() error { return wr.checkAcknowledged(int(calm / writePeriod / 2)) })
	killed := w.loseMachine(leader, wr)
	w.wait("the replacement of "+leader.Name, clusterTime, func() error {
		if now := w.machines(leader.Group); len(now) != 1 || now[0].Name == before[0].Name {
			return fmt.Errorf("the machines are %v", namesOf(now))
		}
		return nil
	})
	w.waitUntilJoined(leader.Group, 1)
	w.waitUntilValid()
	w.figures.seconds("a killed control plane, to ready again", time.Since(killed))
	w.etcdMembers()
	wr.stop()
	w.evaluate(wr, killed)
	w.measureMachines()
	w.checkUnchanged()
	w.delete()
}

// loseMachine kills a machine of the control plane, and waits until the others have served
// for some time. The keeper is paused meanwhile, so that nothing replaces the machine.
func (w *world) loseMachine(m machine.Machine, wr *writer) (killed time.Time) {
	w.Helper()
	unlock, err := w.site.Lock(w.Context())
	w.ok(err)
	defer unlock()
	killed = time.Now()
	w.kill(m.Name)
	had := wr.count()
	w.wait("writes without "+m.Name, clusterTime, func() error { return wr.checkAcknowledged(had + int(calm/writePeriod/2)) })
	return killed
}

// etcdMembers waits until etcd main has three healthy members, and returns
// the machine of their leader.
func (w *world) etcdMembers() (leader machine.Machine) { return w.membersOf(3) }

// membersOf waits until the control plane has the given number of machines, and etcd main has a
// healthy member on each, and returns the machine of their leader.
func (w *world) membersOf(count int) (leader machine.Machine) {
	w.Helper()
	w.wait(fmt.Sprintf("etcd of %d members", count), clusterTime, func() error {
		machines := w.controlPlanes()
		if len(machines) != count {
			return fmt.Errorf("the control plane is %v", namesOf(machines))
		}
		for _, m := range machines {
			leads, err := w.askEtcd(m, count)
			if err != nil {
				return fmt.Errorf("etcd of %s: %w", m.Name, err)
			}
			if leads {
				leader = m
			}
		}
		if leader.Name == "" {
			return errors.New("no member leads")
		}
		return nil
	})
	return leader
}

// askEtcd queries one member for whether it leads, and checks that it knows the given number of voters.
func (w *world) askEtcd(m machine.Machine, count int) (leads bool, err error) {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	config, err := w.etcdTLS()
	if err != nil {
		return false, err
	}
	endpoint := "https://" + net.JoinHostPort(m.Address, "4001")
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, DialTimeout: 2 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return false, err
	}
	defer c.Close() //nolint:errcheck // only queried
	s, err := c.Status(ctx, endpoint)
	if err != nil {
		return false, err
	}
	list, err := c.MemberList(ctx)
	if err != nil {
		return false, err
	}
	voters := 0
	for _, member := range list.Members {
		if !member.IsLearner && len(member.ClientURLs) > 0 {
			voters++
		}
	}
	if len(list.Members) != count || voters != count || s.IsLearner || len(s.Errors) > 0 {
		return false, fmt.Errorf("%d of %d members vote; it says %v", voters, len(list.Members), s.Errors)
	}
	return s.Leader == s.Header.MemberId, nil
}

// etcdTLS returns the TLS configuration of a member as a client of another, from one of the members' disks.
func (w *world) etcdTLS() (*tls.Config, error) {
	found := w.every(w.site.Path(site.Volumes, "*etcd-main*", "pki", "*", "clients", "server.crt"))
	if len(found) == 0 {
		return nil, errors.New("no member has a certificate")
	}
	dir := filepath.Dir(found[0])
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the authority of etcd has no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}, nil
}

// writer creates one object after another, even if earlier writes fail.
type writer struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	sent   int
	made   map[string]time.Time // when each object was acknowledged
	failed []string             // the errors of failed first attempts
	lost   []string             // the errors of writes that failed permanently
}

// write creates ConfigMaps through the load balancer until stop, or the end of the test.
func (w *world) write() *writer {
	w.Helper()
	api := w.access()
	ctx, cancel := context.WithCancel(w.Context())
	wr := &writer{cancel: cancel, made: map[string]time.Time{}}
	begun := time.Now()
	w.Cleanup(wr.stop)
	wr.done.Go(func() {
		tick := time.NewTicker(writePeriod)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			name := fmt.Sprintf("write-%d-%d", begun.Unix(), n)
			wr.note(func() { wr.sent++ })
			wr.done.Go(func() { wr.make(w.Context(), api, name, begun) })
		}
	})
	return wr
}

// make creates one object, and retries after transient failures, with a back-off from
// 50 ms to 1 s, as clients of Kubernetes do: closed or timed out connections, status codes
// of 500 and above, and too many requests. An object that exists on a retry was created by an earlier attempt.
func (wr *writer) make(ctx context.Context, api *access, name string, begun time.Time) {
	wait, start := writePeriod, time.Now()
	for try := 0; ; try++ {
		_, err := api.client().CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil || try > 0 && apierrors.IsAlreadyExists(err) {
			wr.note(func() { wr.made[name] = time.Now() })
			return
		}
		why := fmt.Sprintf("%s at %s: %v", name, time.Since(begun).Round(time.Millisecond), err)
		if try == 0 {
			wr.note(func() { wr.failed = append(wr.failed, why) })
		}
		var answer apierrors.APIStatus
		passes := !errors.As(err, &answer) || answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == http.StatusTooManyRequests
		if !passes || ctx.Err() != nil || time.Since(start) > writeTime {
			wr.note(func() { wr.lost = append(wr.lost, why) })
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

func (wr *writer) note(f func()) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	f()
}

func (wr *writer) stop() {
	wr.cancel()
	wr.done.Wait()
}

// count returns how many objects were acknowledged.
func (wr *writer) count() int {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.made)
}

// checkAcknowledged returns an error while fewer objects than wanted were acknowledged.
func (wr *writer) checkAcknowledged(want int) error {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if len(wr.made) < want {
		return fmt.Errorf("%d of %d writes are acknowledged; failed: %s", len(wr.made), want, strings.Join(wr.failed, "; "))
	}
	return nil
}

// outcome is the result of writes.
type outcome struct {
	// first counts failed first attempts, failed permanent failures; lost counts acknowledged objects that do not exist.
	sent, first, failed, lost int
	gap                       time.Duration // the longest time without an acknowledged write
}

// evaluate compares the acknowledged writes with the stored ones, and returns the longest time without
// an acknowledged write. killed is when the fault began.
func (w *world) evaluate(wr *writer, killed time.Time) outcome {
	w.Helper()
	list, err := w.client().CoreV1().ConfigMaps("default").List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	stored := map[string]bool{}
	for _, c := range list.Items {
		stored[c.Name] = true
	}
	out := outcome{sent: wr.sent, first: len(wr.failed), failed: len(wr.lost)}
	var times []time.Time
	for name, at := range wr.made {
		times = append(times, at)
		if !stored[name] {
			out.lost++
			w.Errorf("%s was acknowledged and is lost", name)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	var at time.Time
	for i := 1; i < len(times); i++ {
		if d := times[i].Sub(times[i-1]); d > out.gap {
			out.gap, at = d, times[i-1]
		}
	}
	w.figures["writes acknowledged"], w.figures["writes failed"] = float64(len(wr.made)), float64(len(wr.failed))
	w.figures.seconds("longest time without a write", out.gap)
	w.Logf("the longest time without a write began %s after the fault; failed at the first try:\n%s", at.Sub(killed).Round(time.Millisecond),
		strings.Join(wr.failed[:min(len(wr.failed), 10)], "\n"))
	return out
}
