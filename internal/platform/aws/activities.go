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
	// activitiesSeen is how many activities of a scaling group are looked through: those under
	// way come first, then the newest.
	activitiesSeen = 10
	// groupsAsked is how many scaling groups are asked for their activities at once.
	groupsAsked = 8
)

// troubles tells, by the names of scaling groups, why those which lack instances do not start
// any, such as a quota: one question for each that lacks some, and none for the others.
func troubles(ctx context.Context, c *kinds.Client, groups []astypes.AutoScalingGroup) map[string]string {
	var mu sync.Mutex
	out := map[string]string{}
	var asked errgroup.Group
	asked.SetLimit(groupsAsked)
	for _, g := range groups {
		if !lacks(g) {
			continue
		}
		asked.Go(func() error {
			found, err := c.AutoScaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
				AutoScalingGroupName: g.AutoScalingGroupName, MaxRecords: sdk.Int32(activitiesSeen)})
			if err != nil {
				return nil // who may not ask, or asks in vain, sees the instances nevertheless
			}
			mu.Lock()
			defer mu.Unlock()
			out[sdk.ToString(g.AutoScalingGroupName)] = failure(found.Activities)
			return nil
		})
	}
	_ = asked.Wait() // none is returned
	return out
}

// lacks reports whether a group has fewer instances than it is to have.
func lacks(g astypes.AutoScalingGroup) bool {
	have := 0
	for _, i := range g.Instances {
		if !strings.HasPrefix(string(i.LifecycleState), "Terminat") {
			have++
		}
	}
	return have < int(sdk.ToInt32(g.DesiredCapacity))
}

// failure is what AWS says of the activity that ended last, if it did not succeed: one that
// fails is begun again, so that others are under way most of the time.
func failure(newestFirst []astypes.Activity) string {
	ended := slices.IndexFunc(newestFirst, func(a astypes.Activity) bool {
		return slices.Contains([]astypes.ScalingActivityStatusCode{astypes.ScalingActivityStatusCodeSuccessful, astypes.ScalingActivityStatusCodeFailed, astypes.ScalingActivityStatusCodeCancelled}, a.StatusCode)
	})
	if ended < 0 || newestFirst[ended].StatusCode == astypes.ScalingActivityStatusCodeSuccessful {
		return ""
	}
	return sdk.ToString(newestFirst[ended].StatusMessage)
}
