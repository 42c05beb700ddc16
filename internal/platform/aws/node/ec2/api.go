package ec2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awsquery"
)

// API calls actions of AWS with the credentials of the machine's role.
type API struct {
	Metadata Metadata
	// HTTP sends what is signed.
	HTTP   *http.Client
	Region string
	// Endpoint replaces every service's; empty means the region's endpoints.
	Endpoint string
	Now      func() time.Time
}

// PodAddresses is how many pods of a machine of a type can have an address of
// their own: every interface has one address that is the machine's, and two pods
// use the machine's network (the README of Amazon's VPC CNI plugin). The error is
// of class fault.Denied where the role may not ask.
func (a API) PodAddresses(ctx context.Context, machineType string) (int, error) {
	var answer struct {
		Items []struct {
			Interfaces int `xml:"networkInfo>maximumNetworkInterfaces"`
			Addresses  int `xml:"networkInfo>ipv4AddressesPerInterface"`
		} `xml:"instanceTypeSet>item"`
	}
	err := a.call(ctx, "ec2", "2016-11-15", "DescribeInstanceTypes", url.Values{"InstanceType.1": {machineType}}, &answer)
	if err == nil && (len(answer.Items) != 1 || answer.Items[0].Interfaces < 1 || answer.Items[0].Addresses < 1) {
		err = errors.New("the answer does not tell")
	}
	if err != nil {
		return 0, fmt.Errorf("ask AWS for the number of addresses of a %s: %w", machineType, err)
	}
	return answer.Items[0].Interfaces*(answer.Items[0].Addresses-1) + 2, nil
}

// Continue tells an auto scaling group that an instance need not be waited for
// any longer. An instance that nobody waits for is an *awsquery.Error with the code ValidationError.
func (a API) Continue(ctx context.Context, group, instance string) error {
	var answer struct{}
	err := a.call(ctx, "autoscaling", "2011-01-01", "CompleteLifecycleAction", url.Values{"AutoScalingGroupName": {group},
		"LifecycleHookName": {awscloud.LifecycleHook}, "InstanceId": {instance}, "LifecycleActionResult": {"CONTINUE"}}, &answer)
	if err != nil {
		return fmt.Errorf("tell the group %s that %s has started: %w", group, instance, err)
	}
	return nil
}

// Client asks AWS as the machine's role.
func (a API) Client() awsquery.Client {
	return awsquery.Client{Credentials: a.Metadata.Credentials, HTTP: a.HTTP, Region: a.Region, Endpoint: a.Endpoint, Now: a.Now,
		Timeout: 6 * patience} // half of it for the three questions of Credentials
}

// call asks AWS. What it refuses is worth asking again, as it may not know yet of
// what was just made; but not what the role may not do, and what can never be valid.
func (a API) call(ctx context.Context, service, version, action string, values url.Values, answer any) error {
	err := a.Client().Call(ctx, service, version, action, values, answer)
	var said *awsquery.Error
	switch {
	case !errors.As(err, &said):
	case fault.Is(err, fault.Denied):
		return fault.Wrap(fault.Denied, err, "let the role of the group's machines do so")
	case fault.Is(err, fault.Permanent) && !strings.Contains(said.Code, "Validation"):
		return fault.Wrap(fault.NotYet, err, "")
	}
	return err
}
