// Package control is the AWS code for programs in the cluster: a machine is identified by its role,
// which must be a role of the cluster's groups; EC2 returns its group and whether it still exists.
// DNS names are published in Route 53.
//
// It must not know what an identified machine or node receives.
package control

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/incluster"
)

// Platform returns the AWS platform.
func Platform() incluster.Platform {
	return incluster.Platform{Name: "aws", Connect: connect, DNS: &incluster.DNS{
		Name: "aws-route53", BatchFlag: "route53-batch-size", Batch: 900, Open: openRoute53}}
}

func connect(ctx context.Context, w incluster.World) (incluster.Control, error) {
	var own awscloud.Controller
	if err := w.Config.Section(&own); err != nil {
		return incluster.Control{}, err
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(own.Region))
	if err != nil {
		return incluster.Control{}, fmt.Errorf("reach AWS: %w", err)
	}
	caller, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return incluster.Control{}, fmt.Errorf("get the AWS account of this machine: %w", err)
	}
	partition := strings.Split(aws.ToString(caller.Arn)+":", ":")[1]
	api := ec2.NewFromConfig(cfg)
	instances := instances{api: api, cluster: w.Config.ClusterName, byAddress: w.Stored.NamedByAddress}
	endpoint := w.Env("AWS_ENDPOINT_URL")
	if endpoint == "" {
		endpoint = awsquery.Endpoint("sts", own.Region)
	}
	known := &groupFinder{Stored: w.Stored, instances: instances}
	var gone controller.Machines
	if self := w.Env("NODE_NAME"); self != "" { // set by the add-on's manifest
		gone = newRoster(instances, self, w.Now)
	}
	return incluster.Control{
		Verifier: &awssts.Verifier{
			Endpoint: endpoint, Account: aws.ToString(caller.Account), Partition: partition, Roles: own.NodesRoles, Profiles: own.NodesProfiles, Instances: instances, Now: w.Now,
			HTTP: &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		},
		Groups: known, Prefixes: known, Machines: gone, Period: rosterPeriod,
		Fleet: instanceFleet{instances: instances, ec2: api, scaling: autoscaling.NewFromConfig(cfg)},
	}, nil
}
