package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
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
	text, err := o.readCompleted(ctx)
	if err != nil || text == nil {
		return "", err
	}
	c, _, err := compat.DecodeOne[*api.Cluster](text, compat.Options{Lenient: true})
	if err != nil {
		return "", fmt.Errorf("read the issuer of service account tokens from %s: %w", layout.Completed, err)
	}
	was, issuer := c.Spec.ServiceAccountIssuerDiscovery, issuerOf(c)
	if was == nil || was.DiscoveryStore != now.DiscoveryStore || !isOfStore(issuer, now.DiscoveryStore) { // the user had set it, and no longer does
		return "", nil
	}
	return issuer, nil
}

// readCompleted reads the completed cluster of the last update; nil before the first one.
func (o *Opened) readCompleted(ctx context.Context) ([]byte, error) {
	listing, err := o.Places.Base.Listing(ctx)
	if err != nil || !slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == layout.Completed }) {
		return nil, err
	}
	text, err := o.readApplied(ctx, layout.Completed)
	return text, fault.IgnoreGone(err)
}

// issuerOf returns the issuer that a cluster's spec sets, "" if none.
func issuerOf(c *api.Cluster) string {
	if s := c.Spec.KubeAPIServer; s != nil && s.ServiceAccountIssuer != nil {
		return *s.ServiceAccountIssuer
	}
	return ""
}

// isOfStore reports whether an issuer is a URL of a store, at whatever endpoint.
func isOfStore(issuer, store string) bool {
	_, place, _ := strings.Cut(store, "://")
	bucket, key, _ := strings.Cut(strings.Trim(place, "/"), "/")
	return strings.Contains(issuer, bucket) && strings.HasSuffix(strings.TrimRight(issuer, "/"), key)
}

// keptNames returns the names that kOps has added to the certificates of API servers behind a load
// balancer, of all groups that have or had API servers.
func (o *Opened) keptNames(ctx context.Context) ([]string, error) {
	if o.Cluster.Spec.Spec.API.LoadBalancer == nil {
		return nil, nil
	}
	listing, err := o.Places.Base.Listing(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range listing {
		if !isAPIServerConfig(i.Key) {
			continue
		}
		text, err := o.readApplied(ctx, i.Key)
		if fault.Is(err, fault.Gone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var c struct { // any version's: Parse rejects unknown keys
			Names []string `json:"ApiserverAdditionalIPs"`
		}
		if err := yaml.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("read the names of the API server from %s: %w", i.Key, err)
		}
		out = append(out, c.Names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// isAPIServerConfig reports whether a key is of the node configuration of a group with API servers.
func isAPIServerConfig(key string) bool {
	for _, role := range []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer} {
		of := layout.NodeConfig(string(role), "GROUP")
		prefix, suffix, _ := strings.Cut(of, "GROUP")
		if group, ok := strings.CutPrefix(key, prefix); ok && strings.HasSuffix(group, suffix) {
			return true
		}
	}
	return false
}
