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
	"kops.local/kops/internal/platform/rest/metadata"
)

// API calls AWS actions with the credentials of the machine's role.
type API struct {
	Metadata Metadata
	// HTTP sends the signed requests.
	HTTP   *http.Client
	Region string
	// Endpoint replaces every service's endpoint; empty means the region's endpoints.
	Endpoint string
	Now      func() time.Time
}

// PodAddresses returns how many pods on a machine of the type can have their
// own addresses: each interface uses one address for the machine, and two pods
// use the machine's network (the README of Amazon's VPC CNI plugin). The error
// has the class fault.Denied if the role is not permitted to look it up.
func (a API) PodAddresses(ctx context.Context, machineType string) (int, error) {
	var answer struct {
		Items []struct {
			Interfaces int `xml:"networkInfo>maximumNetworkInterfaces"`
			Addresses  int `xml:"networkInfo>ipv4AddressesPerInterface"`
		} `xml:"instanceTypeSet>item"`
	}
	err := a.call(ctx, "ec2", "2016-11-15", "DescribeInstanceTypes", url.Values{"InstanceType.1": {machineType}}, &answer)
	if err == nil && (len(answer.Items) != 1 || answer.Items[0].Interfaces < 1 || answer.Items[0].Addresses < 1) {
		err = errors.New("the response does not contain it")
	}
	if err != nil {
		return 0, fmt.Errorf("look up the number of addresses of a %s: %w", machineType, err)
	}
	return answer.Items[0].Interfaces*(answer.Items[0].Addresses-1) + 2, nil
}

// Continue notifies an Auto Scaling group that it no longer needs to wait for an instance. If no
// group waits for the instance, the error is an *awsquery.Error with the code ValidationError.
func (a API) Continue(ctx context.Context, group, instance string) error {
	var answer struct{}
	err := a.call(ctx, "autoscaling", "2011-01-01", "CompleteLifecycleAction", url.Values{"AutoScalingGroupName": {group},
		"LifecycleHookName": {awscloud.LifecycleHook}, "InstanceId": {instance}, "LifecycleActionResult": {"CONTINUE"}}, &answer)
	if err != nil {
		return fmt.Errorf("notify the group %s that %s has started: %w", group, instance, err)
	}
	return nil
}

// Client returns a client that calls AWS with the machine's role.
func (a API) Client() awsquery.Client {
	return awsquery.Client{Credentials: a.Metadata.Credentials, HTTP: a.HTTP, Region: a.Region, Endpoint: a.Endpoint, Now: a.Now,
		Timeout: 6 * metadata.Patience} // half of it is for the three requests of Credentials
}

// call calls AWS. Rejected requests may be retried, because AWS may not know a new object yet; but
// not those that the role is not permitted to make or that can never be valid.
func (a API) call(ctx context.Context, service, version, action string, values url.Values, answer any) error {
	err := a.Client().Call(ctx, service, version, action, values, answer)
	var said *awsquery.Error
	switch {
	case !errors.As(err, &said):
	case fault.Is(err, fault.Denied):
		return fault.Wrap(fault.Denied, err, "allow this to the role of the group's machines")
	case fault.Is(err, fault.Permanent) && !strings.Contains(said.Code, "Validation"):
		return fault.Wrap(fault.NotYet, err, "")
	}
	return err
}
