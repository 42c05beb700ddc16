package pipeline

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
)

// kept is what running pods and users rely on and what does not follow from the cluster's objects
// alone: the last update wrote it, possibly with another program or in another environment.
type kept struct {
	// issuer is the issuer of service account tokens.
	issuer string
	// apiNames are further names in the certificate of the API server.
	apiNames []string
}

// readKept reads what the last update wrote; it is empty before the first one.
func (o *Opened) readKept(ctx context.Context) (k kept, err error) {
	if o.Places.Base.Store == nil {
		return kept{}, nil
	}
	if k.issuer, err = o.keptIssuer(ctx); err != nil {
		return kept{}, err
	}
	k.apiNames, err = o.keptNames(ctx)
	return k, err
}

// keptIssuer returns the issuer of service account tokens, if it is the URL of a store: that depends on
// the endpoint that the environment of an update names.
func (o *Opened) keptIssuer(ctx context.Context) (string, error) {
	now := o.Cluster.Spec.Spec.ServiceAccountIssuerDiscovery
	if s := o.Cluster.Spec.Spec.KubeAPIServer; now == nil || now.DiscoveryStore == "" || s != nil && s.ServiceAccountIssuer != nil {
		return "", nil
	}
	text, err := o.readApplied(ctx, layout.Completed)
	if fault.Is(err, fault.Gone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	c, _, err := compat.DecodeOne[*api.Cluster](text, compat.Options{Lenient: true})
	if err != nil {
		return "", fmt.Errorf("read the issuer of service account tokens from %s: %w", layout.Completed, err)
	}
	was := c.Spec.ServiceAccountIssuerDiscovery
	if was == nil || was.DiscoveryStore != now.DiscoveryStore || c.Spec.KubeAPIServer == nil || c.Spec.KubeAPIServer.ServiceAccountIssuer == nil {
		return "", nil
	}
	return *c.Spec.KubeAPIServer.ServiceAccountIssuer, nil
}

// keptNames returns the names that kOps has added to the certificate of an API server behind a load
// balancer.
func (o *Opened) keptNames(ctx context.Context) ([]string, error) {
	i := slices.IndexFunc(o.Cluster.Groups, func(g *api.InstanceGroup) bool { return g.IsControlPlane() })
	if o.Cluster.Spec.Spec.API.LoadBalancer == nil || i < 0 {
		return nil, nil
	}
	g := o.Cluster.Groups[i]
	text, err := o.readApplied(ctx, layout.NodeConfig(string(g.Spec.Role), g.Name))
	if fault.Is(err, fault.Gone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c struct { // any version's: Parse rejects unknown keys
		Names []string `json:"ApiserverAdditionalIPs"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("read the names of the API server from the configuration of group %s: %w", g.Name, err)
	}
	return c.Names, nil
}
