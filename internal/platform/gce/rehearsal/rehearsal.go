// Package rehearsal emulates Google Cloud on this host: package emulator serves its APIs, and every
// instance is a machine of this host, with its address, metadata server, service account, user
// data, disks and a TPM; balancers and DNS names work, too. A group keeps its size, because an
// instance whose machine has died is deleted.
//
// What is not emulated: permissions and firewalls are not enforced; networks are not isolated; a
// stopped instance loses its boot disk; the boot disk has the size that the host gives it;
// snapshots contain nothing.
//
// It must not know how machines are created, or anything about clusters.
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
	// Project and Region are the ones that are emulated.
	Project = "kops-rehearsal"
	Region  = "us-east1"
	// Domain is the domain whose zone exists from the start.
	Domain = "example.com"
)

// metadataAddress is the address of every instance's metadata server.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// play is the emulated Google Cloud.
type play struct {
	stage    rehearsal.Stage
	log      *slog.Logger
	dir      string
	emulator *emulator.Emulator
	objects  *objectServer
	api      *gceapi.Clients
	keeper   *rehearsal.Keeper
	room     *rehearsal.Reconciler
	desired  *desiredState
	memory   map[string]int // by machine type, in MiB
}

// Check reports what this host is missing to emulate Google Cloud.
func Check() error {
	if _, err := exec.LookPath(softtpm.Program); err != nil {
		return fault.Wrap(fault.Permanent, err, "install it, because it emulates the TPMs of instances: apt-get install "+softtpm.Program)
	}
	_, err := findObjectServer()
	return err
}

// Start starts the emulator and returns the play.
func Start(ctx context.Context, stage rehearsal.Stage, o rehearsal.Options) (*rehearsal.Play, error) {
	p, err := start(ctx, stage, o)
	if err != nil {
		return nil, err
	}
	return p.asPlay(), nil
}

func start(ctx context.Context, stage rehearsal.Stage, o rehearsal.Options) (*play, error) {
	p := &play{stage: stage, log: stage.Log, dir: o.Dir, room: rehearsal.NewReconciler(stage), memory: map[string]int{}}
	p.keeper = rehearsal.NewKeeper(stage.Log, p.sync)
	p.desired = &desiredState{stage: stage, onChange: p.keeper.Trigger, want: map[string]emulator.Instance{}, keys: map[uint64]string{}}
	if err := os.MkdirAll(filepath.Join(p.dir, "tpm"), 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.objects, err = startObjectServer(ctx, o); err != nil {
		return nil, err
	}
	p.keeper.Ended, p.keeper.Failure = p.objects.Ended(), p.objects.Failure
	p.emulator, err = emulator.New(emulator.Options{Project: Project, Others: imageProjects(), Regions: map[string][]string{Region: {Region + "-b", Region + "-c", Region + "-d"}},
		DNSZones: []emulator.DNSZone{{Name: "example", DNSName: Domain + "."}}, Buckets: bucketsOf(o.Stores), Objects: p.objects, Machines: p.desired, EKPub: p.desired.key,
		OnBug: func(err error) { stage.Log.Error("emulate the cloud", "error", err) }})
	if err == nil {
		err = p.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.objects.Close())
	}
	return p, nil
}

// connect connects the play to the emulator, through the same API that other clients use.
func (p *play) connect(ctx context.Context) (err error) {
	p.api, err = gceapi.Connect(ctx, gceapi.Config{Project: Project, Region: Region, Endpoint: "http://emulator", HTTPClient: &http.Client{Transport: rehearsal.HandlerTransport{Handler: p.emulator}}})
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

func (p *play) asPlay() *rehearsal.Play {
	return &rehearsal.Play{
		Serves: isServiceHost, Handler: p.services(), Lookup: p.room.Lookup, Scheme: "gs",
		Plain:       map[netip.Addr]http.Handler{metadataAddress: p.metadata()},
		Environment: p.environment(),
		Run:         p.keeper.Run, Close: p.close,
	}
}

// close stops everything except the machines, which the stage stops.
func (p *play) close() error { return errors.Join(p.room.Close(), p.objects.Close()) }

// sync makes this host match the emulator's state once.
func (p *play) sync(ctx context.Context) error {
	want := p.desired.machines() // what the API reports of them is at least as recent
	now, err := p.observe(ctx)
	if err != nil {
		return err
	}
	machines, disks := p.wantedMachines(now, want)
	for _, d := range disks {
		delete(now.disks, d.Name)
	}
	for name := range now.disks { // boot disks, which are never attached here, and those that are not attached
		disks = append(disks, rehearsal.Disk{Name: name})
	}
	return p.room.Reconcile(ctx, rehearsal.Wanted{Machines: machines, Disks: disks, Balancers: now.balancers, Routes: now.routes, Zones: now.zones,
		Hosts: map[string]netip.Addr{metadataName: metadataAddress}})
}

// imageProjects returns the projects from whose images clusters start; every image exists.
func imageProjects() []string { return []string{"ubuntu-os-cloud", "debian-cloud", "cos-cloud"} }

func bucketsOf(names []string) []emulator.Bucket {
	var out []emulator.Bucket
	for _, n := range names {
		out = append(out, emulator.Bucket{Name: n})
	}
	return out
}
