// Package awsapi connects to the AWS APIs: it holds one client for each service, sends each request
// once, and gives every error a class of package fault.
//
// It must not know what the requests are for: neither resources nor clusters.
package awsapi

import (
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Clients are the services of one account in one region.
type Clients struct {
	EC2         *ec2.Client
	AutoScaling *autoscaling.Client
	ELB         *elb.Client
	ClassicELB  *classic.Client
	IAM         *iam.Client
	SQS         *JSON
	Events      *JSON
	Route53     *route53.Client
	STS         *sts.Client
	S3          *s3.Client
	SSM         *JSON
	Quotas      *JSON

	// Region is the region's name, for example "eu-west-1".
	Region string
	// AccountID is the account's twelve digits.
	AccountID string
	// Partition is the first part of every ARN: "aws", "aws-cn", "aws-us-gov".
	Partition string
}
