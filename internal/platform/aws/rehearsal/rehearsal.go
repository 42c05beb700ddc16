// Package rehearsal plays AWS on this host: an emulator, moto, answers its APIs, and every
// instance that the emulator runs is a machine of this host, with its address, metadata
// service, role, user data and volumes; load balancers and names are real, too. A group keeps its
// size, because an instance whose machine died is terminated.
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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/rehearsal"
)

// Region is the one that is played.
const Region = "us-east-1"

// metadataAddress is where every instance finds its metadata service.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// The account is the emulator's, for every caller.
const accessKey, secretKey = "rehearsal", "rehearsal"

// play is AWS as it is played.
type play struct {
	stage    rehearsal.Stage
	log      *slog.Logger
	emulator *emulator
	clients  *awsapi.Clients
	keeper   *rehearsal.Keeper
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
	p := &play{stage: stage, log: stage.Log, emulator: e, given: map[string]given{}, disks: map[string]string{}, fronts: addresses{}, made: map[string]string{}}
	p.keeper = rehearsal.NewKeeper(stage.Log, p.pass)
	p.keeper.Ended, p.keeper.Failure = e.Ended(), e.Failure
	err = p.connect(ctx, o.Stores)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return p, nil
}

func (p *play) played() *rehearsal.Play {
	return &rehearsal.Play{
		Serves: serves, Handler: p.services(), Scheme: "s3", Lookup: p.lookup,
		Plain: map[netip.Addr]http.Handler{metadataAddress: p.metadata()},
		Environment: append(ofAccount(),
			"AWS_REGION="+Region, "AWS_DEFAULT_REGION="+Region, "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_EC2_METADATA_DISABLED=true",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"),
		Keep: p.keeper.Keep, Close: p.emulator.Close,
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
