// Package rehearsal emulates Hetzner Cloud on this host: package emulator serves its API, and every server
// is a machine of this host, with its private address, metadata service, user data and volumes; load
// balancers and object storage work, too. A server whose machine has died is off.
//
// What is not emulated: firewalls are not enforced, and servers are not reached at their public addresses;
// networks are not isolated from each other; a server that is off loses its disk; the disk has the size
// that the host gives it.
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
	"path/filepath"
	"strings"

	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/rehearsal"
)

const (
	// apiHost is the host of the API. The object storage of each location has a host in objectDomain.
	apiHost      = "api.hetzner.cloud"
	objectDomain = ".your-objectstorage.com"
	// token is the token of the project; programs reject tokens that have not 64 characters.
	token = "rehearsalrehearsalrehearsalrehearsalrehearsalrehearsalrehearsal1"
	// accessKey and secretKey are the keys of the object storage.
	accessKey, secretKey = "rehearsal", "rehearsal-secret"
)

// requests is how many requests the project may send in an hour. Hetzner allows 3600; this play itself
// sends more.
const requests = 100_000

// metadataAddress is the address of every server's metadata service.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// play is the emulated Hetzner Cloud.
type play struct {
	log      *slog.Logger
	emulator *emulator.Emulator
	objects  *objectServer
	api      *hetznerapi.Client
	keeper   *rehearsal.Keeper
	room     *rehearsal.Reconciler
	desired  *desiredState
}

// Check reports what this host is missing to emulate Hetzner Cloud.
func Check() error {
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
	p := &play{log: stage.Log, room: rehearsal.NewReconciler(stage)}
	p.keeper = rehearsal.NewKeeper(stage.Log, p.sync)
	p.desired = &desiredState{onChange: p.keeper.Trigger, want: map[int64]launch{}}
	var err error
	p.emulator, err = emulator.New(emulator.Options{Token: token, Rate: requests, Machines: p.desired, OnBug: func(err error) { stage.Log.Error("emulate the cloud", "error", err) }})
	if err != nil {
		return nil, err
	}
	p.api = hetznerapi.New(hetznerapi.Config{Endpoint: "http://emulator" + emulator.Base, Token: token, HTTP: &http.Client{Transport: rehearsal.HandlerTransport{Handler: p.emulator}}})
	for _, b := range o.Stores {
		if err := os.MkdirAll(filepath.Join(objectFolder(o), b), 0o700); err != nil {
			return nil, err
		}
	}
	if p.objects, err = startObjectServer(ctx, o); err != nil {
		return nil, err
	}
	p.keeper.Ended, p.keeper.Failure = p.objects.Ended(), p.objects.Failure
	return p, nil
}

func (p *play) asPlay() *rehearsal.Play {
	return &rehearsal.Play{
		Serves:  func(host string) bool { return host == apiHost || strings.HasSuffix(host, objectDomain) },
		Handler: p.services(), Lookup: p.room.Lookup, Scheme: "hos",
		Plain: map[netip.Addr]http.Handler{metadataAddress: p.metadata()},
		Environment: []string{hetznercloud.TokenVariable + "=" + token, "S3_ENDPOINT=https://fsn1" + objectDomain, "S3_ACCESS_KEY_ID=" + accessKey, "S3_SECRET_ACCESS_KEY=" + secretKey,
			"S3_REGION", hetznercloud.EndpointVariable, hetznercloud.MetadataVariable, "HCLOUD_CONTEXT", "HCLOUD_CONFIG"},
		Run: p.keeper.Run, Close: p.close,
	}
}

// close stops everything except the machines, which the stage stops.
func (p *play) close() error { return errors.Join(p.room.Close(), p.objects.Close()) }

// services serves the API and the object storage, and wakes the keeper after requests that may change
// anything.
func (p *play) services() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := strings.Cut(r.Host, ":"); strings.HasSuffix(host, objectDomain) {
			p.objects.ServeHTTP(w, r)
			return
		}
		p.emulator.ServeHTTP(w, r)
		if r.Method != http.MethodGet {
			p.keeper.Trigger()
		}
	})
}

// metadata returns the metadata service. As at Hetzner, it identifies the caller only by address.
func (p *play) metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := p.room.Caller(w, r); ok {
			p.emulator.Metadata(name).ServeHTTP(w, r)
		}
	})
}
