package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the lease held by the instance that maintains labels.
const leaseName = "kops-controller-leader"

// Lead runs work while this process holds the cluster's one lease. It returns an
// error if the lease is lost: the process should then exit, because another may
// already be at work. identity tells the holders apart.
func Lead(ctx context.Context, leases coordinationv1client.LeasesGetter, identity string, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var started atomic.Bool
	worked := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: leaseName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				started.Store(true)
				worked <- work(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("hold the lease %s: %w", leaseName, err)
	}
	elector.Run(ctx)
	lost := ctx.Err() == nil
	cancel()
	if started.Load() { // the elector does not wait for it
		if err := <-worked; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	if lost {
		return fmt.Errorf("the lease %s was lost", leaseName)
	}
	return nil
}
