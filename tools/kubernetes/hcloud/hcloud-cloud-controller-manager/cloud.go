package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// prefix precedes a server's number in the provider ID of its node.
const prefix = "hcloud://"

// cloud is a project.
type cloud struct {
	api *hcloud.Client
	// network is the name or the number of the nodes' network; "" if they have none.
	network string
}

var (
	_ cloudprovider.Interface   = (*cloud)(nil)
	_ cloudprovider.InstancesV2 = (*cloud)(nil)
)

// Initialize implements cloudprovider.Interface.
func (*cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// ProviderName implements cloudprovider.Interface.
func (*cloud) ProviderName() string { return "hcloud" }

// HasClusterID implements cloudprovider.Interface.
func (*cloud) HasClusterID() bool { return true }

// InstancesV2 implements cloudprovider.Interface.
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// The cloud is nothing else than its instances.
func (*cloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (*cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }
func (*cloud) Zones() (cloudprovider.Zones, bool)               { return nil, false }
func (*cloud) Clusters() (cloudprovider.Clusters, bool)         { return nil, false }
func (*cloud) Routes() (cloudprovider.Routes, bool)             { return nil, false }

// server returns the server of a node, or nil.
func (c *cloud) server(ctx context.Context, n *corev1.Node) (*hcloud.Server, error) {
	if n.Spec.ProviderID == "" {
		s, _, err := c.api.Server.GetByName(ctx, n.Name)
		return s, err
	}
	id, err := strconv.ParseInt(strings.TrimPrefix(n.Spec.ProviderID, prefix), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not the provider ID of a server", n.Spec.ProviderID)
	}
	s, _, err := c.api.Server.GetByID(ctx, id)
	return s, err
}

// InstanceExists implements cloudprovider.InstancesV2.
func (c *cloud) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	s, err := c.server(ctx, n)
	return s != nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (c *cloud) InstanceShutdown(ctx context.Context, n *corev1.Node) (bool, error) {
	s, err := c.server(ctx, n)
	if err == nil && s == nil {
		err = cloudprovider.InstanceNotFound
	}
	return err == nil && s.Status == hcloud.ServerStatusOff, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *cloud) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	s, err := c.server(ctx, n)
	if err == nil && s == nil {
		err = cloudprovider.InstanceNotFound
	}
	if err != nil {
		return nil, err
	}
	out := &cloudprovider.InstanceMetadata{ProviderID: prefix + strconv.FormatInt(s.ID, 10), InstanceType: s.ServerType.Name, Region: s.Location.Name, Zone: s.Location.Name,
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.Name}}}
	if !s.PublicNet.IPv4.IsUnspecified() {
		out.NodeAddresses = append(out.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: s.PublicNet.IPv4.IP.String()})
	}
	if c.network == "" {
		return out, nil
	}
	network, _, err := c.api.Network.Get(ctx, c.network)
	if err != nil {
		return nil, err
	}
	for _, p := range s.PrivateNet {
		if network != nil && p.Network.ID == network.ID {
			out.NodeAddresses = append(out.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: p.IP.String()})
		}
	}
	return out, nil
}
