package kops

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/ops/certificates"
	"kops.local/kops/internal/pipeline"
)

// Certificate is a certificate of a cluster, wherever it is stored.
type Certificate = status.ClusterCertificate

// Certificates are the certificates of a cluster.
type Certificates struct {
	// All are sorted by holder; authorities come first.
	All []Certificate
	// Silent are nodes that do not report their certificates.
	Silent []string
	// Problem is the reason why the API server could not be queried; the authorities are listed anyway.
	Problem error
}

// Certificates lists all certificates of a cluster: its authorities, those that nodes report
// for their machines, the API server's, and the user's in the kubeconfig file.
func (c *Client) Certificates(ctx context.Context, cluster string, o ReachOptions, on On) (*Certificates, error) {
	k, err := c.checkup(ctx, &reporter{cluster: cluster, on: on}, o, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	stock, err := k.Certificates(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if user := pipeline.UserCertificate(o.Kubeconfig, cluster); user != nil {
		stock.Add(certificates.Kubeconfig, o.Kubeconfig, user)
	}
	return &Certificates{All: stock.Sorted(), Silent: stock.Silent, Problem: err}, nil
}

// expiringCertificates returns the expired certificates as failures, and those that expire soon.
func expiringCertificates(stock *certificates.Stock, cluster string, now time.Time) (failures []status.Failure, soon []string) {
	text := func(c Certificate) string {
		at := c.Holder
		if c.File != "" {
			at += " " + c.File
		}
		return fmt.Sprintf("%s of %s expires at %s", at, c.Subject, c.Ends.UTC().Format(time.RFC3339))
	}
	remedy := func(c Certificate) string {
		if c.Holder == certificates.Store {
			return "replace it: kops rotate all --name " + cluster
		}
		return "see why it is not renewed: kops doctor " + cluster
	}
	ended, near := certificates.Expiring(stock.All, now)
	for _, c := range ended {
		failures = append(failures, status.Failure{Kind: status.KindCertificate, Name: c.Holder, Message: text(c) + ", which has passed", Remedy: remedy(c)})
	}
	for _, c := range near {
		soon = append(soon, text(c)+"; "+remedy(c))
	}
	return failures, soon
}
