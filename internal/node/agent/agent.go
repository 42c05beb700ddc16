package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/journal"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/host"
)

// Agent holds everything that nodeup needs from its environment. Its fields must not change while it runs.
type Agent struct {
	// Machine is the machine; each run sets its Authority and Warn.
	Machine *host.Machine
	// Store is read by machines with an API server; the others use Joiner.
	Store Source
	// Join makes the Joiner for a boot configuration. It must call failed with the error of each
	// attempt that is retried.
	Join   func(b *nodeconfig.Boot, failed func(error)) (Joiner, error)
	Detect Detect
	// PlatformSecrets returns the names of the secrets with which a control plane uses a platform, given
	// the platform's name; nil: there are none.
	PlatformSecrets func(platform string) []string
	Issuer          pki.Issuer
	Clock           exec.Clock
	// Launched tells the machine's scaling group (node.Host.ScalingGroup) that the
	// machine has started; may be nil.
	Launched func(ctx context.Context, b *nodeconfig.Boot, h node.Host) error
	// Version is the version of this program.
	Version string
	// Patience is how long one step is retried; 0 means 5 minutes.
	Patience time.Duration
	// Retries is how often a failed run or a failed call of Launched is repeated; negative means
	// without limit.
	Retries int
	// Last is the report of the machine's last start, which a renewal extends; nil if there is none.
	Last *report.Report
	// OnReport receives the boot report whenever it changes; may be nil.
	OnReport func(report.Report)
	// Journal receives a line for each intent and result; may be nil.
	Journal io.Writer
}

// Pauses between failed runs. They grow: what a run needs is often available soon.
const (
	firstPause = 5 * time.Second
	maxPause   = 30 * time.Second
)

// run is the state of one run of an agent.
type run struct {
	*Agent
	record *recorder
	boot   *nodeconfig.Boot
	// text is the node configuration as text.
	text   []byte
	joiner Joiner
	// renewing is set if the run only renews certificates, and usesKeptConfig if it uses the
	// configuration of the last run, because the cluster's has changed since.
	renewing, usesKeptConfig bool
	// requestedHash is the hash of the requested configuration; "" when the machine starts.
	requestedHash string
	input         node.Input
	// shapes are digests of manifests by key; see labels.Running.
	shapes map[string]string
	// desired is the machine's desired state.
	desired *graph.Graph
	mu      sync.Mutex // guards input while the store is read
	// index and signature cover the files that the machine fetches; empty: no index is required.
	index, signature []byte
	// inventory lists what this run and earlier ones have created.
	inventory inventory
}

// Converge makes the machine match its configuration, and repeats failed runs. It
// does not retry a boot configuration that cannot be used.
func (a *Agent) Converge(ctx context.Context, boot []byte) error {
	rec := a.recorder()
	var h node.Host
	err := a.retry(ctx, func(n int) (err error) {
		rec.change(func(r *report.Report) { r.Run = n + 1 })
		h, err = a.converge(ctx, rec, boot)
		return err
	})
	// Only this call is repeated: kops-controller tells a repeated run nothing once the node is
	// ready.
	if err == nil && a.Launched != nil && h.ScalingGroup != "" {
		err = a.retry(ctx, func(int) error {
			return rec.do(PhaseLaunch, func() error {
				b, err := nodeconfig.ParseBoot(boot)
				if err != nil {
					return err
				}
				return a.Launched(ctx, b, h)
			})
		})
	}
	if err == nil {
		rec.change(func(rep *report.Report) { rep.Done = true })
	}
	return err
}

// retry repeats a call that may fail, with pauses between attempts. do receives the number of
// the attempt, from 0.
func (a *Agent) retry(ctx context.Context, do func(n int) error) error {
	for n, pause := 0, firstPause; ; n, pause = n+1, min(2*pause, maxPause) {
		err := do(n)
		if err == nil || errors.Is(err, errBoot) || n == a.Retries || ctx.Err() != nil {
			return err
		}
		if serr := a.Clock.Sleep(ctx, pause); serr != nil {
			return err
		}
	}
}

// errBoot marks a boot configuration that cannot be used.
var errBoot = errors.New("the boot configuration")

func (a *Agent) recorder() *recorder {
	return &recorder{now: a.Clock.Now, onChange: a.OnReport, report: report.Report{Version: a.Version, Started: a.Clock.Now().UTC()}}
}

// errPredecessor is the error for a machine that replaces another one of the same name whose node is still
// ready.
var errPredecessor = errors.New("the node of the machine that had this name before is still ready")

// hasBegun reports whether an earlier run has already changed the machine.
func (a *Agent) hasBegun() bool {
	_, err := os.Stat(filepath.Join(a.Machine.Root, inventoryFile))
	return err == nil
}

// converge is one run. It returns the properties detected on the machine, which are empty if
// the machine has joined before.
func (a *Agent) converge(ctx context.Context, rec *recorder, boot []byte) (node.Host, error) {
	var none node.Host
	r, p, err := a.prepare(ctx, rec, boot, "")
	if errors.Is(err, ErrJoined) && !a.hasBegun() {
		err = fault.Wrap(fault.NotYet, errPredecessor, "kops-controller removes it once it sees that the machine was replaced; the machine retries by itself")
	}
	if errors.Is(err, ErrJoined) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return r.input.Host, r.carryOut(ctx, p)
}

// carryOut applies a plan to the machine. It records first which configuration it
// uses, and last that the machine matches all of it.
func (r *run) carryOut(ctx context.Context, p *plan.Plan) error {
	r.inventory.recordPlanned(p)
	if err := r.record.part(PhaseFiles, func() error {
		return errors.Join(r.inventory.write(ctx, r.Machine), writeIfChanged(ctx, r.Machine, configFile, string(r.text)), r.keepHash(ctx), r.keepIndex(ctx))
	}); err != nil {
		return err
	}
	if err := r.apply(ctx, p); err != nil {
		return err
	}
	r.record.certificates(r.Machine, r.desired)
	r.inventory.dropSettled(p)
	return r.record.part(PhaseFiles, func() error {
		return errors.Join(r.inventory.write(ctx, r.Machine), r.keepRunning(ctx))
	})
}

// Preview prints what Converge would do.
func (a *Agent) Preview(ctx context.Context, boot []byte, out io.Writer) error {
	_, p, err := a.prepare(ctx, a.recorder(), boot, "")
	if errors.Is(err, ErrJoined) {
		_, err = fmt.Fprintln(out, err)
		return err
	}
	if err != nil {
		return err
	}
	if p.Empty() {
		_, err := fmt.Fprintln(out, "The machine is up to date; there is nothing to change.")
		return err
	}
	return text.Plan(out, p, text.Options{})
}

// prepare runs every phase up to the plan; it changes nothing. requestedHash is as in run.
func (a *Agent) prepare(ctx context.Context, rec *recorder, boot []byte, asked string) (*run, *plan.Plan, error) {
	r := &run{Agent: a, record: rec, input: newInput(), requestedHash: asked, shapes: map[string]string{}}
	var g *graph.Graph
	var p *plan.Plan
	for _, phase := range []struct {
		name string
		do   func() error
	}{
		{PhaseIdentify, func() (err error) {
			if r.boot, err = nodeconfig.ParseBoot(boot); err != nil {
				return errors.Join(errBoot, err)
			}
			r.input.Boot = r.boot
			rec.change(func(rep *report.Report) { rep.Cluster, rep.Group = r.boot.ClusterName, r.boot.InstanceGroupName })
			return nil
		}},
		{PhaseConfigure, func() error { return r.configure(ctx) }},
		{PhaseRead, func() error { return r.readStore(ctx) }},
		{PhaseModel, func() (err error) {
			if r.input.Host, err = r.Detect(ctx, r.boot, r.input.Config); err != nil {
				return fmt.Errorf("identify this machine: %w", err)
			}
			rec.change(func(rep *report.Report) {
				rep.Node, rep.Adapted = r.input.Host.NodeName, node.ContainerAdaptations(r.input)
			})
			r.Machine.Authority = r.authority()
			r.Machine.Warn = rec.warn
			for _, w := range r.input.Host.Warnings {
				rec.warn(w)
			}
			if err := r.trusted(ctx); err != nil {
				return err
			}
			g, err = node.Build(r.input)
			r.desired = g
			return err
		}},
		{PhaseObserve, func() error {
			have, err := r.observer().Snapshot(ctx, r.boot.ClusterName, host.Kinds(), g, false)
			if err != nil {
				return err
			}
			if err := r.observeStale(ctx, g, have); err != nil {
				return err
			}
			p, err = plan.Make(g, have, host.Kinds(), plan.Options{Prune: true})
			return err
		}},
	} {
		if err := rec.do(phase.name, func() error { return clockRemedy(phase.do()) }); err != nil {
			return nil, nil, err
		}
	}
	return r, p, nil
}

// authority returns the authority that signs this machine's certificates.
func (r *run) authority() host.Authority {
	if r.input.Config.ConfigStore != nil {
		return keysets{r.input.Keysets, r.Issuer}
	}
	bundles := map[string]string{}
	for n, text := range r.input.Config.CAs {
		bundles[n] = text
	}
	if c := r.boot.ConfigServer; c != nil && bundles[pki.KubernetesCA] == "" {
		bundles[pki.KubernetesCA] = c.CACertificates
	}
	return remote{joiner: r.joiner, ids: r.input.Config.KeypairIDs, bundles: bundles, generate: r.Issuer.Generate}
}

func (r *run) client(string) any { return r.Machine }

func (r *run) observer() *observe.Observer {
	return &observe.Observer{Client: r.client, Sleep: r.Clock.Sleep}
}

// apply carries out the plan; each step counts toward the phase of its kind.
func (r *run) apply(ctx context.Context, p *plan.Plan) error {
	log := r.Journal
	if log == nil {
		log = io.Discard
	}
	patience := r.Patience
	if patience == 0 {
		patience = 5 * time.Minute
	}
	limited, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := &tracker{record: r.record, remaining: map[string]int{}, stop: stop}
	for _, s := range p.Steps {
		if s.Op != plan.Keep {
			t.remaining[phaseOf(s.Address.Kind)]++
		}
	}
	e := &exec.Executor{
		Client: r.client, Journal: journal.New(log, r.Clock.Now), Clock: r.Clock, Patience: patience, Report: t.event,
		Limits: exec.NewLimits(map[string]int{"packages": 1, "units": 4, "download": 4, "images": 2, "certificates": 4}, 16),
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			var s resource.Scope
			for _, step := range p.Steps {
				if step.Address.Kind == k.KindName() && step.Want != nil {
					s.Names = append(s.Names, k.KeyOf(step.Want))
				}
			}
			return r.observer().List(ctx, k, s)
		},
	}
	err := e.Run(limited, p)
	if err != nil && limited.Err() != nil && ctx.Err() == nil { // whatever else failed meanwhile failed for the same reason
		err = fmt.Errorf("stopped before the plan was carried out: %w", context.Cause(limited))
	}
	return clockRemedy(err)
}

// controlPlaneTime is how long a control plane may take to start: until then, a
// machine that gets no answer assumes that the control plane is still starting.
const controlPlaneTime = 5 * time.Minute

// recordRetry records a failed attempt to reach kops-controller, which is retried if that may help.
func (r *run) recordRetry(err error) {
	if errors.Is(err, bootstrap.ErrReady) {
		return
	}
	absent := isUnanswered(err)
	err = withRemedy(err)
	r.record.change(func(rep *report.Report) {
		p := entry(rep, PhaseConfigure)
		if p.State != report.Running {
			p = entry(rep, PhaseCertificates)
		}
		p.Attempts++
		if fail(p, err); absent && r.record.now().Sub(p.Started) < controlPlaneTime {
			p.Waiting, p.Remedy = true, ""
		}
	})
}

// isUnanswered reports whether an error is typical of a server, or a load balancer in front of
// it, that is still starting.
func isUnanswered(err error) bool {
	var certificate *tls.CertificateVerificationError
	return fault.Is(err, fault.NotYet) && !errors.As(err, &certificate) && !errors.As(err, new(*bootstrap.Trouble))
}

// phaseOf returns the phase that steps of a kind belong to.
func phaseOf(kind string) string {
	switch kind {
	case host.Assets.Name:
		return PhaseDownload
	case host.Certificates.Name:
		return PhaseCertificates
	case host.Units.Name:
		return PhaseServices
	case host.Images.Name:
		return PhaseImages
	case host.Files.Name, host.Logs.Name, host.Directories.Name, host.Symlinks.Name, host.Blocks.Name, host.Binaries.Name, host.Archives.Name:
		return PhaseFiles
	}
	return PhaseSystem
}

// tracker turns the executor's events into phases.
type tracker struct {
	record *recorder
	// stop ends the run: on a full disk every step would fail with the same error.
	stop           context.CancelCauseFunc
	mu             sync.Mutex
	remaining      map[string]int
	begun, stopped map[string]bool
	failed         map[string]error
}

func (t *tracker) event(e exec.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := phaseOf(e.Step.Address.Kind)
	if e.Step.Op == plan.Keep {
		return
	}
	if t.begun == nil {
		t.begun, t.failed, t.stopped = map[string]bool{}, map[string]error{}, map[string]bool{}
	}
	if !t.begun[name] && e.State != exec.Skipped {
		t.begun[name] = true
		t.record.begin(name)
	}
	switch e.State {
	case exec.Retrying:
		t.record.change(func(r *report.Report) {
			p := entry(r, name)
			p.Attempts++
			fail(p, fmt.Errorf("%s: %w", e.Step.Address, e.Err))
		})
		return
	case exec.Started:
		return
	case exec.Failed:
		err := fmt.Errorf("%s: %w", e.Step.Address, e.Err)
		switch {
		case errors.Is(e.Err, context.Canceled):
			t.stopped[name] = true
		case t.failed[name] == nil:
			t.failed[name] = err
		}
		if fault.Is(err, fault.Quota) {
			t.stop(err)
		}
	case exec.Skipped:
		t.stopped[name] = true
	case exec.Done:
		t.record.change(func(r *report.Report) { entry(r, name).Steps++ })
	}
	if t.remaining[name]--; t.remaining[name] == 0 && t.begun[name] {
		t.record.end(name, t.failed[name], t.stopped[name])
	}
}
