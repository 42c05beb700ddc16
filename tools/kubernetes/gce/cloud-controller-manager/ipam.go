package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"
)

// ipamName is the name of the controller of pod ranges in --controllers.
const ipamName = "node-ipam-controller"

// ranges returns the address ranges that the cloud routes to an instance for its pods.
type ranges interface {
	AliasRangesByProviderID(providerID string) ([]string, error)
}

// ipam assigns nodes the alias ranges of their instances for their pods, like the allocator
// CloudAllocator. If an instance has no range, another controller must assign one.
type ipam struct {
	client kubernetes.Interface
	nodes  cache.SharedIndexInformer
	cloud  ranges
	queue  workqueue.RateLimitingInterface
}

// startIPAM starts it if --allocate-node-cidrs is set.
func startIPAM(in app.ControllerInitContext, c *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
	return func(ctx context.Context, _ genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		from, ok := cloud.(ranges)
		if !ok || !c.ComponentConfig.KubeCloudShared.AllocateNodeCIDRs {
			return nil, false, nil
		}
		i := &ipam{client: c.ClientBuilder.ClientOrDie(in.ClientName), nodes: c.SharedInformers.Core().V1().Nodes().Informer(), cloud: from,
			queue: workqueue.NewRateLimitingQueue(workqueue.DefaultControllerRateLimiter())}
		add := func(o any) {
			if n, ok := o.(*corev1.Node); ok && n.Spec.PodCIDR == "" && n.Spec.ProviderID != "" {
				i.queue.Add(n.Name)
			}
		}
		if _, err := i.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, now any) { add(now) }}); err != nil {
			return nil, false, err
		}
		go func() { <-ctx.Done(); i.queue.ShutDown() }()
		go i.run(ctx)
		return nil, true, nil
	}
}

func (i *ipam) run(ctx context.Context) {
	for {
		key, quit := i.queue.Get()
		if quit {
			return
		}
		if err := i.give(ctx, key.(string)); err != nil {
			klog.ErrorS(err, "cannot assign a range to a node", "node", key)
			i.queue.AddRateLimited(key)
		} else {
			i.queue.Forget(key)
		}
		i.queue.Done(key)
	}
}

// give sets the pod ranges of a node that has none.
func (i *ipam) give(ctx context.Context, name string) error {
	o, there, err := i.nodes.GetStore().GetByKey(name)
	n, ok := o.(*corev1.Node)
	if err != nil || !there || !ok || n.Spec.PodCIDR != "" {
		return err
	}
	all, err := i.cloud.AliasRangesByProviderID(n.Spec.ProviderID)
	if err != nil {
		return fmt.Errorf("get the alias ranges of %s: %w", n.Spec.ProviderID, err)
	}
	if len(all) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": all[0], "podCIDRs": all}})
	if err == nil {
		_, err = i.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}
