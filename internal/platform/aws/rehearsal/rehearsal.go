// Package rehearsal plays AWS on this host: an emulator, moto, answers its APIs, and every
// instance that the emulator runs is a machine of this host, with its address, metadata
// service, role, user data and volumes; load balancers and names are real, too. A group
// keeps its size, because what died here is terminated there.
//
// What is not played: rights are not enforced, security groups and network ACLs neither;
// VPCs are not kept apart; an instance that is stopped loses its disk; the root disk has
// the size that the host gives it; snapshots hold nothing.
//
// It must not know how machines are made, nor of clusters.
package rehearsal

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/rehearsal"
)

// Region is the one that is played.
const Region = "us-east-1"

// metadataAddress is where every instance finds its metadata service.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

const (
	// account is the emulator's, whoever asks.
	accessKey, secretKey = "rehearsal", "rehearsal"
	// every is how often the emulator is looked at, when no request has changed anything;
	// settle is how long a change may bring others with it, before it is looked at.
	every, settle = 2 * time.Second, 50 * time.Millisecond
)

// play is AWS as it is played.
type play struct {
	stage    rehearsal.Stage
	log      *slog.Logger
	emulator *emulator
	clients  *awsapi.Clients
	wake     chan struct{}
	roles    roles
	sizes    sizes
	// attaching is held while a volume is attached.
	attaching sync.Mutex
	given     map[string]given  // by instance
	disks     map[string]string // by volume, the instance that has it; "" for none

	mu     sync.Mutex
	now    snapshot
	fronts addresses
	made   map[string]string // by instance, the version of its launch template
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
	e, err := startEmulator(ctx, o)
	if err != nil {
		return nil, err
	}
	p := &play{stage: stage, log: stage.Log, emulator: e, wake: make(chan struct{}, 1), given: map[string]given{}, disks: map[string]string{}, fronts: addresses{}, made: map[string]string{}}
	err = p.connect(ctx, o.Stores)
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return p, nil
}

func (p *play) played() *rehearsal.Play {
	return &rehearsal.Play{
		Serves: serves, Handler: p.services(), Lookup: p.lookup,
		Plain: map[netip.Addr]http.Handler{metadataAddress: p.metadata()},
		Environment: append(ofAccount(),
			"AWS_REGION="+Region, "AWS_DEFAULT_REGION="+Region, "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_EC2_METADATA_DISABLED=true",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"),
		Keep: p.keep, Close: p.emulator.close,
	}
}

// ofAccount are variables of the user's own account, which neither his programs in the
// rehearsal nor the emulator get.
func ofAccount() []string {
	return []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_ENDPOINT_URL", "AWS_CA_BUNDLE", "S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"}
}

// connect reaches the emulator and makes the buckets.
func (p *play) connect(ctx context.Context, buckets []string) (err error) {
	p.clients, err = awsapi.Connect(ctx, awsapi.Config{Region: Region, Endpoint: endpoint, HTTPClient: &http.Client{Transport: p.emulator.transport}, UserAgent: "kops-rehearsal",
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")})
	for _, b := range buckets {
		if err == nil {
			_, err = p.clients.S3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(b)})
		}
	}
	return err
}

// changed has the emulator looked at soon.
func (p *play) changed() {
	select {
	case p.wake <- struct{}{}:
	default: // it is about to be
	}
}

// keep plays until the context ends: what went wrong is told once, and tried again.
func (p *play) keep(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := ""
	for {
		err := p.pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			last = ""
		} else if err.Error() != last {
			last = err.Error()
			p.complain(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.emulator.ended:
			return p.emulator.failure()
		case <-tick.C:
		case <-p.wake:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(settle):
			}
		}
	}
}

// complain tells what went wrong, and what can be done.
func (p *play) complain(err error) {
	log := p.log
	if remedy := fault.Remedy(err); remedy != "" {
		log = log.With("remedy", remedy)
	}
	log.Error("play the cloud", "error", err)
}

// pass has this host be as the emulator says, once.
func (p *play) pass(ctx context.Context) error {
	now, err := p.observe(ctx)
	if err != nil {
		return err
	}
	given := p.give(ctx, now)
	p.mu.Lock()
	p.now = now
	p.mu.Unlock()
	if err := p.stage.Network.Addresses(now.gateways()); err != nil {
		return err
	}
	return errors.Join(given, p.keepPools(ctx, now), p.keepInstances(ctx, now), p.keepVolumes(ctx, now), p.stage.Network.Routes(now.routes), p.stage.Network.Balance(p.balancers(now)))
}

// seen is what the emulator said last.
func (p *play) seen() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}
