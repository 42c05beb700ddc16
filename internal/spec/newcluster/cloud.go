package newcluster

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

// CloudOf guesses the cloud of a new cluster from the URL of its state store.
// isSet says whether an environment variable is set; "" means that the cloud
// must be named.
func CloudOf(store string, isSet func(variable string) bool) api.CloudProviderID {
	scheme, _, _ := strings.Cut(store, "://")
	switch scheme {
	case "azureblob":
		return api.CloudAzure
	case "do":
		return api.CloudDO
	case "hos":
		return api.CloudHetzner
	case "gs":
		return api.CloudGCE
	case "linode":
		return api.CloudLinode
	case "scw":
		return api.CloudScaleway
	case "swift":
		return api.CloudOpenstack
	case "s3":
		switch {
		case isSet("HCLOUD_TOKEN"):
			return api.CloudHetzner
		case isSet("LINODE_TOKEN"):
			return api.CloudLinode
		}
		return api.CloudAWS
	}
	return ""
}

func (b *builder) setCloud() {
	b.cluster = &api.Cluster{TypeMeta: typeMeta(api.KindCluster), ObjectMeta: metav1.ObjectMeta{Name: b.ClusterName}}
	b.spec = &b.cluster.Spec
	c := &b.spec.CloudProvider
	switch b.cloud {
	case api.CloudAWS:
		c.AWS = &api.AWSSpec{SpotinstProduct: notEmpty(b.SpotinstProduct), SpotinstOrientation: notEmpty(b.SpotinstOrientation)}
	case api.CloudGCE:
		c.GCE = &api.GCESpec{Project: b.Project, ServiceAccount: b.GCEServiceAccount}
		b.spec.CloudConfig = &api.CloudConfiguration{}
	case api.CloudAzure:
		c.Azure = b.azure()
	case api.CloudOpenstack:
		c.Openstack = b.openstack()
		b.spec.CloudControllerManager = &api.CloudControllerManagerConfig{ClusterName: b.ClusterName}
	case api.CloudDO:
		c.DO = &api.DOSpec{}
	case api.CloudHetzner:
		c.Hetzner = &api.HetznerSpec{}
	case api.CloudLinode:
		c.Linode = &api.LinodeSpec{}
	case api.CloudScaleway:
		c.Scaleway = &api.ScalewaySpec{}
	case api.CloudLocal:
		c.Local = &api.LocalSpec{}
	case api.CloudMetal:
		b.cluster.Labels = map[string]string{api.LabelMetalCloud: string(api.CloudMetal)}
	case "":
		b.fail("--cloud", "", "the cloud is not known", "name it with --cloud")
	default:
		b.fail("--cloud", b.CloudProvider, "unknown cloud", "use aws, azure, digitalocean, gce, hetzner, linode, local, metal, openstack or scaleway")
	}
}

func (b *builder) azure() *api.AzureSpec {
	a := &api.AzureSpec{
		SubscriptionID: b.AzureSubscriptionID, TenantID: b.AzureTenantID,
		ResourceGroupName: b.AzureResourceGroupName, RouteTableName: b.AzureRouteTableName, AdminUser: b.AzureAdminUser,
	}
	if a.AdminUser == "" {
		a.AdminUser = "kops"
	}
	return a
}

func (b *builder) openstack() *api.OpenstackSpec {
	delay, timeout, retries, version := "15s", "10s", 3, "v3"
	o := &api.OpenstackSpec{
		Router: &api.OpenstackRouter{
			ExternalNetwork: &b.OpenstackExternalNet,
			DNSServers:      notEmpty(b.OpenstackDNSServers),
			ExternalSubnet:  notEmpty(b.OpenstackExternalSubnet),
		},
		BlockStorage: &api.OpenstackBlockStorageConfig{BSVersion: &version, IgnoreVolumeAZ: &b.OpenstackStorageIgnoreAZ, ClusterName: b.ClusterName},
		Monitor:      &api.OpenstackMonitor{Delay: &delay, Timeout: &timeout, MaxRetries: &retries},
	}
	if b.APILoadBalancerType != "" {
		o.LoadBalancer = b.openstackLoadBalancer()
	}
	return o
}

func (b *builder) openstackLoadBalancer() *api.OpenstackLoadbalancerConfig {
	provider, method := "haproxy", "ROUND_ROBIN"
	if b.OpenstackLBOctavia {
		provider = "octavia"
	}
	if b.OpenstackOctaviaProvider != "" {
		provider = b.OpenstackOctaviaProvider
	}
	if provider == "ovn" {
		method = "SOURCE_IP_PORT"
	}
	return &api.OpenstackLoadbalancerConfig{
		FloatingNetwork: &b.OpenstackExternalNet, FloatingSubnet: notEmpty(b.OpenstackLBSubnet),
		Method: &method, Provider: &provider, UseOctavia: &b.OpenstackLBOctavia,
	}
}

// notEmpty is a pointer to the text, or nil when it is empty.
func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
