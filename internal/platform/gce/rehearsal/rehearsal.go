// Package rehearsal plays Google Cloud on this host: the stand-in of package emulator answers its
// APIs, and every instance that it has is a machine of this host, with its address, metadata
// server, service account, user data, disks and a TPM; balancers and names are real, too. A group
// keeps its size, because an instance whose machine died is ended.
//
// What is not played: rights are not enforced, firewalls neither; networks are not kept apart; an
// instance that is stopped loses its disk; the root disk has the size that the host gives it;
// snapshots hold nothing.
//
// It must not know how machines are made, nor of clusters.
package rehearsal

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/vtpm/softtpm"
	"kops.local/kops/internal/platform/rehearsal"
)

const (
	// Project and Region are those that are played.
	Project = "kops-rehearsal"
	Region  = "us-east1"
	// Domain is the one whose zone is there from the start.
	Domain = "example.com"
)

// metadataAddress is where every instance finds its metadata server.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// play is Google Cloud as it is played.
type play struct {
	stage    rehearsal.Stage
	log      *slog.Logger
	dir      string
	emulator *emulator.Emulator
	objects  *objects
	api      *gceapi.Clients
	keeper   *rehearsal.Keeper
	wishes   *wishes
	running  map[string]machine // by name
	disks    map[string]bool    // that were plugged in, and whether they are
	memory   map[string]int     // of machine types, in MiB
	names    names
}

// Check reports what this host lacks to play Google Cloud.
func Check() error {
	if _, err := exec.LookPath(softtpm.Program); err != nil {
		return fault.Wrap(fault.Permanent, err, "the TPMs of instances are played by it; run: apt-get install "+softtpm.Program)
	}
	_, err := findObjects()
	return err
}

// Start starts the emulator and returns the play.
func Start(ctx context.Context, stage rehearsal.Stage, o rehearsal.Options) (*rehearsal.Play, error) {
	p, err := start(ctx, stage, o)
	if err != nil {
		return nil, err
	}
	return p.played(), nil
}

func start(ctx context.Context, stage rehearsal.Stage, o rehearsal.Options) (*play, error) {
	p := &play{stage: stage, log: stage.Log, dir: o.Dir, running: map[string]machine{}, disks: map[string]bool{}, memory: map[string]int{}}
	p.keeper = rehearsal.NewKeeper(stage.Log, p.pass)
	p.wishes = &wishes{stage: stage, changed: p.keeper.Changed, want: map[string]emulator.Instance{}, keys: map[uint64]string{}}
	if err := os.MkdirAll(filepath.Join(p.dir, "tpm"), 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.objects, err = startObjects(ctx, o); err != nil {
		return nil, err
	}
	p.keeper.Ended, p.keeper.Failure = p.objects.Ended(), p.objects.Failure
	p.emulator, err = emulator.New(emulator.Options{Project: Project, Others: imageProjects(), Regions: map[string][]string{Region: {Region + "-b", Region + "-c", Region + "-d"}},
		DNSZones: []emulator.DNSZone{{Name: "example", DNSName: Domain + "."}}, Buckets: bucketsOf(o.Stores), Objects: p.objects, Machines: p.wishes, EKPub: p.wishes.key,
		OnWrong: func(err error) { stage.Log.Error("play the cloud", "error", err) }})
	if err == nil {
		err = p.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.objects.Close())
	}
	return p, nil
}

// connect has the play ask the emulator as anybody does.
func (p *play) connect(ctx context.Context) (err error) {
	p.api, err = gceapi.Connect(ctx, gceapi.Config{Project: Project, Region: Region, Endpoint: "http://emulator", HTTPClient: &http.Client{Transport: within{p.emulator}}})
	if err != nil {
		return err
	}
	types, err := p.api.Compute.MachineTypes.List(Project, Region+"-b").Context(ctx).Do()
	if err != nil {
		return err
	}
	for _, t := range types.Items {
		p.memory[t.Name] = int(t.MemoryMb)
	}
	return nil
}

func (p *play) played() *rehearsal.Play {
	return &rehearsal.Play{
		Serves: serves, Handler: p.services(), Lookup: p.lookup, Scheme: "gs",
		Plain:       map[netip.Addr]http.Handler{metadataAddress: p.metadata()},
		Environment: p.environment(),
		Keep:        p.keeper.Keep, Close: p.close,
	}
}

// close ends everything except machines, which the stage ends.
func (p *play) close() error {
	var errs []error
	for _, m := range p.running {
		errs = append(errs, m.tpm.Stop())
	}
	return errors.Join(append(errs, p.objects.Close())...)
}

// pass has this host be as the emulator says, once.
func (p *play) pass(ctx context.Context) error {
	now, err := p.observe(ctx)
	if err != nil {
		return err
	}
	p.names.set(now)
	want := p.wishes.now()
	if err := p.stage.Network.Addresses(now.gateways()); err != nil {
		return err
	}
	return errors.Join(p.keepInstances(ctx, want), p.keepDisks(ctx, want), p.stage.Network.Routes(now.routes), p.stage.Network.Balance(now.balancers))
}

// imageProjects are those whose images clusters start from; every image is there.
func imageProjects() []string { return []string{"ubuntu-os-cloud", "debian-cloud", "cos-cloud"} }

func bucketsOf(names []string) []emulator.Bucket {
	var out []emulator.Bucket
	for _, n := range names {
		out = append(out, emulator.Bucket{Name: n})
	}
	return out
}
