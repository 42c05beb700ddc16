package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/bootstrap/awssts"
	"kops.local/kops/internal/controller"
	"kops.local/kops/internal/fault"
)

// onAWS asks AWS who machines are.
func onAWS(ctx context.Context, conf *controller.Config, stored controller.Stored) (identity, error) {
	own := conf.Server.Provider["aws"]
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(own.Region))
	if err != nil {
		return identity{}, fmt.Errorf("reach AWS: %w", err)
	}
	caller, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return identity{}, fmt.Errorf("ask AWS for our own account: %w", err)
	}
	partition := strings.Split(aws.ToString(caller.Arn)+":", ":")[1]
	fleet := instances{api: ec2.NewFromConfig(cfg), cluster: conf.ClusterName}
	endpoint, err := stsEndpoint(own.Region, partition, os.Getenv("AWS_ENDPOINT_URL"))
	if err != nil {
		return identity{}, err
	}
	return identity{
		verifier: &awssts.Verifier{
			Endpoint: endpoint, Account: aws.ToString(caller.Account), Partition: partition, Roles: own.NodesRoles, Instances: fleet, Now: time.Now,
			HTTP: &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		},
		groups: onInstances{Stored: stored, instances: fleet},
	}, nil
}

// stsEndpoint is the token service of a region, or another that is given.
func stsEndpoint(region, partition, given string) (string, error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil {
			return "", fmt.Errorf("AWS_ENDPOINT_URL: %w", err)
		}
		return u.JoinPath("/").String(), nil
	}
	suffix := "amazonaws.com"
	if partition == "aws-cn" {
		suffix += ".cn"
	}
	return "https://sts." + region + "." + suffix + "/", nil
}

// instances are the machines of a cluster.
type instances struct {
	api     ec2.DescribeInstancesAPIClient
	cluster string
}

// Instance looks up a machine that runs and bears the cluster's tag.
func (i instances) Instance(ctx context.Context, id string) (awssts.Instance, error) {
	out, err := i.api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	var coded smithy.APIError
	if errors.As(err, &coded) && strings.HasPrefix(coded.ErrorCode(), "InvalidInstanceID") {
		return awssts.Instance{}, fault.Wrap(fault.Gone, err, "")
	}
	if err != nil {
		return awssts.Instance{}, fmt.Errorf("describe the instance %s: %w", id, err)
	}
	for _, r := range out.Reservations {
		for _, m := range r.Instances {
			if aws.ToString(m.InstanceId) == id && tag(m, "KubernetesCluster") == i.cluster && running(m) {
				return awssts.Instance{NodeName: nodeName(m), Group: tag(m, controller.LabelGroup), Names: names(m)}, nil
			}
		}
	}
	return awssts.Instance{}, fault.New(fault.Gone, "%s is no running machine of the cluster", id)
}

func running(m types.Instance) bool {
	return m.State != nil && (m.State.Name == types.InstanceStateNamePending || m.State.Name == types.InstanceStateNameRunning)
}

func tag(m types.Instance, key string) string {
	for _, t := range m.Tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// nodeName is the instance's identifier, or its private DNS name where its
// subnet names machines by their addresses.
func nodeName(m types.Instance) string {
	if o := m.PrivateDnsNameOptions; o != nil && o.HostnameType == types.HostnameTypeIpName && aws.ToString(m.PrivateDnsName) != "" {
		return aws.ToString(m.PrivateDnsName)
	}
	return aws.ToString(m.InstanceId)
}

// names are what the kubelet's certificate may hold: the identifier, the
// private DNS name, and the addresses of the first interface.
func names(m types.Instance) []string {
	out := []string{aws.ToString(m.InstanceId), aws.ToString(m.PrivateDnsName)}
	for _, n := range m.NetworkInterfaces {
		if n.Attachment == nil || aws.ToInt32(n.Attachment.DeviceIndex) != 0 {
			continue
		}
		out = append(out, aws.ToString(n.PrivateIpAddress))
		if n.Association != nil {
			out = append(out, aws.ToString(n.Association.PublicIp))
		}
		for _, a := range n.Ipv6Addresses {
			out = append(out, aws.ToString(a.Ipv6Address))
		}
	}
	return out
}

// onInstances finds the group of a node by the tags of its machine.
type onInstances struct {
	controller.Stored
	instances instances
}

// GroupOf returns the tag of the instance that the cloud's controller has found for the node.
func (o onInstances) GroupOf(ctx context.Context, n *corev1.Node) (string, error) {
	id := n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:] // aws:///ZONE/INSTANCE
	if id == "" {
		return "", fault.New(fault.NotYet, "the node %s has no provider id yet", n.Name)
	}
	i, err := o.instances.Instance(ctx, id)
	switch {
	case err != nil:
		return "", err
	case i.NodeName != n.Name: // the kubelet said so, and may say what it likes
		return "", fault.New(fault.Gone, "the instance %s is not the machine of the node %s", id, n.Name)
	case i.Group == "":
		return "", fault.New(fault.Gone, "the instance %s belongs to no group", id)
	}
	return i.Group, nil
}
