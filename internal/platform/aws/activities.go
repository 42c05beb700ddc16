package aws

import (
	"context"
	"slices"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/platform/aws/kinds"
)

const (
	// maxActivities is how many activities of a scaling group are read: those in progress come
	// first, then the newest.
	maxActivities = 10
	// parallelGroups is how many scaling groups are queried for their activities at once.
	parallelGroups = 8
)

// troubles returns, by scaling group name, why groups that are missing instances do not start any,
// such as a quota. It sends one request for each such group and none for the others.
func troubles(ctx context.Context, c *kinds.Client, groups []astypes.AutoScalingGroup) map[string]string {
	var mu sync.Mutex
	out := map[string]string{}
	var asked errgroup.Group
	asked.SetLimit(parallelGroups)
	for _, g := range groups {
		if !isBelowDesired(g) {
			continue
		}
		asked.Go(func() error {
			found, err := c.AutoScaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
				AutoScalingGroupName: g.AutoScalingGroupName, MaxRecords: sdk.Int32(maxActivities)})
			if err != nil {
				return nil // without permission or an answer, instances are listed anyway
			}
			mu.Lock()
			defer mu.Unlock()
			out[sdk.ToString(g.AutoScalingGroupName)] = lastFailure(found.Activities)
			return nil
		})
	}
	_ = asked.Wait() // the functions return no errors
	return out
}

// isBelowDesired reports whether a group has fewer instances than its desired capacity.
func isBelowDesired(g astypes.AutoScalingGroup) bool {
	have := 0
	for _, i := range g.Instances {
		if !strings.HasPrefix(string(i.LifecycleState), "Terminat") {
			have++
		}
	}
	return have < int(sdk.ToInt32(g.DesiredCapacity))
}

// lastFailure returns the message of the activity that ended last, if it did not succeed. AWS retries a
// failed activity, so that another one is in progress most of the time.
func lastFailure(newestFirst []astypes.Activity) string {
	ended := slices.IndexFunc(newestFirst, func(a astypes.Activity) bool {
		return slices.Contains([]astypes.ScalingActivityStatusCode{astypes.ScalingActivityStatusCodeSuccessful, astypes.ScalingActivityStatusCodeFailed, astypes.ScalingActivityStatusCodeCancelled}, a.StatusCode)
	})
	if ended < 0 || newestFirst[ended].StatusCode == astypes.ScalingActivityStatusCodeSuccessful {
		return ""
	}
	return sdk.ToString(newestFirst[ended].StatusMessage)
}
