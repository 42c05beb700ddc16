// Package rehearsal emulates AWS on this host: an emulator, moto, provides its APIs, and every
// instance that the emulator runs is a machine on this host, with its address, metadata service,
// role, user data and volumes; load balancers and names are real, too. A group keeps its size,
// because an instance whose machine died is terminated.
//
// Not emulated: permissions, security groups and network ACLs are not enforced; VPCs are not
// isolated from each other; a stopped instance loses its disk; the root disk has the size that the
// host gives it; snapshots contain no data.
//
// It must not know how machines are created, nor anything of clusters.
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

// Region is the emulated region.
const Region = "us-east-1"

// metadataAddress is the address of the metadata service for every instance.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// Credentials for the emulator's account, which all callers use.
const accessKey, secretKey = "rehearsal", "rehearsal"

// play is the emulated AWS.
type play struct {
	stage    rehearsal.Stage
	log      *slog.Logger
	emulator *emulator
	clients  *awsapi.Clients
	keeper   *rehearsal.Keeper
	room     *rehearsal.Reconciler
	roles    roles
	sizes    sizes
	// attaching is locked while a volume is attached.
	attaching sync.Mutex
	settings  map[string]launchSettings // by instance

	mu       sync.Mutex
	last     snapshot
	versions map[string]string // by instance, the version of its launch template
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
	e, err := startEmulator(ctx, o)
	if err != nil {
		return nil, err
	}
	p := &play{stage: stage, log: stage.Log, room: rehearsal.NewReconciler(stage), emulator: e, settings: map[string]launchSettings{}, versions: map[string]string{}}
	p.keeper = rehearsal.NewKeeper(stage.Log, p.sync)
	p.keeper.Ended, p.keeper.Failure = e.Ended(), e.Failure
	err = p.connect(ctx, o.Stores)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return p, nil
}

func (p *play) asPlay() *rehearsal.Play {
	return &rehearsal.Play{
		Serves: isServiceHost, Handler: p.services(), Scheme: "s3", Lookup: p.room.Lookup,
		Plain: map[netip.Addr]http.Handler{metadataAddress: p.metadata()},
		Environment: append(accountVariables(),
			"AWS_REGION="+Region, "AWS_DEFAULT_REGION="+Region, "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_EC2_METADATA_DISABLED=true",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"),
		Run: p.keeper.Run, Close: p.emulator.Close,
	}
}

// accountVariables lists the environment variables of the user's own account, which are removed from the
// environment of the emulator and of the user's programs in the rehearsal.
func accountVariables() []string {
	return []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_ENDPOINT_URL", "AWS_CA_BUNDLE", "S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"}
}

// connect connects to the emulator and creates the buckets.
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

// sync applies the emulator's current state to this host, once.
func (p *play) sync(ctx context.Context) error {
	now, err := p.observe(ctx)
	if err != nil {
		return err
	}
	given := p.applyTemplates(ctx, now)
	p.mu.Lock()
	p.last = now
	p.mu.Unlock()
	return errors.Join(given, p.reconcilePools(ctx, now), p.detachEnded(ctx, now), p.room.Reconcile(ctx, p.wanted(now)))
}

// lastSnapshot returns the last observed state of the emulator.
func (p *play) lastSnapshot() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
