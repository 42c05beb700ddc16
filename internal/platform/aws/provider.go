// Package aws makes Amazon Web Services a platform of kops: it combines the kinds of resources, the
// model that declares them, and the lookup of facts.
//
// It must not know how plans are made or carried out, nor read the environment.
package aws

import (
	"context"
	"fmt"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/lookup"
	"kops.local/kops/internal/platform/aws/model"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store/open"
)

// Options specify how to reach AWS. For empty fields, the AWS SDK's default chain of environment
// variables and files applies.
type Options struct {
	// Endpoint replaces the addresses of all services.
	Endpoint string
	// RoleARN is a role to assume.
	RoleARN string
	// Region is used for a cluster that does not specify its own.
	Region string
	// SkipRegionCheck accepts a region that this program does not know.
	SkipRegionCheck bool
	Credentials     sdk.CredentialsProvider
	HTTP            *http.Client
	Version         string // of this program, for the user agent
}

// In returns the platform, configured by the program's environment.
func In(w platform.World) platform.Provider {
	return Provider(Options{Endpoint: w.Getenv("AWS_ENDPOINT_URL"), RoleARN: w.Getenv("KOPS_AWS_ROLE_ARN"), Region: open.Region(w.Getenv),
		SkipRegionCheck: w.Getenv("SKIP_REGION_CHECK") != "", Credentials: open.Credentials(w.Getenv), HTTP: w.HTTP, Version: w.Version})
}

// Provider returns the platform.
func Provider(o Options) platform.Provider {
	return platform.Provider{
		Platform: spec.Platform(), Remote: true,
		Kinds: kinds.All(), Limits: limits(),
		Connect: o.connect,
		Lookup:  platform.Lookup{Region: o.region, Facts: o.lookUp, SetFacts: setFacts, NewClusterFacts: o.newClusterFacts, Endpoint: endpoint},
		Declare: platform.Declare{Model: model.Build, Shared: sharedObjects, APIHost: model.APIHost, Terraform: model.Terraform},
		Fleet:   platform.Fleet{Machines: listMachines, Roll: roll(), Room: room, BootRecord: bootRecord},
	}
}

// limits returns how many calls to each service may be in progress at once, well below the request
// rates that the services document for an account.
func limits() map[string]int {
	return map[string]int{"ec2": 32, "autoscaling": 16, "elasticloadbalancing": 12, "iam": 10, "sqs": 8, "events": 8, "route53": 4, "ssm": 4, "s3": 32, "store": 32}
}

func (o Options) connect(ctx context.Context, c platform.Config) (*platform.Session, error) {
	region := c.Region
	if region == "" {
		region = o.Region
	}
	cfg := awsapi.Config{Region: region, Endpoint: o.Endpoint, Credentials: o.Credentials, RoleARN: o.RoleARN,
		UserAgent: "kops", UserAgentVersion: o.Version}
	if o.HTTP != nil {
		cfg.HTTPClient = o.HTTP
	}
	clients, err := awsapi.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	client := kinds.NewClient(*clients)
	if c.Memo != nil {
		client.Past = c.Memo
	}
	return &platform.Session{Client: client, Snapshot: func() any { return client.Snapshot() },
		Prefetch: func(ctx context.Context, snapshot any, cluster string) {
			observe.Prefetch(ctx, kinds.All(), snapshot, cluster)
		}}, nil
}

// region returns the region of the cluster's zones, which must all be in the same one.
func (o Options) region(c *api.Cluster) (string, error) {
	found := ""
	for _, s := range c.Spec.Networking.Subnets {
		r := s.Region
		if r == "" && s.Zone != "" {
			r = spec.RegionOf(s.Zone)
		}
		if r == "" {
			continue
		}
		if found != "" && found != r {
			return "", fmt.Errorf("subnet %s is in region %s, but others are in %s; all subnets of a cluster must be in one region", s.Name, r, found)
		}
		found = r
	}
	if found == "" {
		found = o.Region
	}
	return found, nil
}

func (o Options) lookUp(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) (*facts.Facts, error) {
	k := s.Client.(*kinds.Client)
	if err := o.checkRegion(k); err != nil {
		return nil, err
	}
	return lookup.Facts(ctx, k.Clients, k.Past, lookup.ClusterQuery(c, groups))
}

// setFacts passes the account to the kinds, because it is part of names.
func setFacts(s *platform.Session, f *facts.Facts) error {
	own, err := facts.OwnAs[spec.Facts](f.Of(string(api.CloudAWS)))
	if err != nil {
		return err
	}
	c := s.Client.(*kinds.Client)
	c.AccountID, c.Partition = own.AccountID, own.Partition
	return nil
}

func (o Options) newClusterFacts(ctx context.Context, s *platform.Session, wanted newcluster.Options, w newcluster.World) (*facts.Facts, error) {
	k := s.Client.(*kinds.Client)
	if err := o.checkRegion(k); err != nil {
		return nil, err
	}
	return lookup.Facts(ctx, k.Clients, nil, lookup.NewClusterQuery(wanted, w))
}

// checkRegion rejects a region that does not exist before any request is sent there.
func (o Options) checkRegion(k *kinds.Client) error {
	if o.SkipRegionCheck {
		return nil
	}
	return spec.CheckRegion(k.Region)
}

func endpoint(ctx context.Context, s *platform.Session, c *api.Cluster) (string, error) {
	return kinds.LoadBalancerHost(ctx, s.Client.(*kinds.Client), model.APILoadBalancerName(c.Name))
}
