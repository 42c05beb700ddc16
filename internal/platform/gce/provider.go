// Package gce is Google Compute Engine as a platform of kops: it puts together the kinds of
// resources, the model that declares them, and the look-up of facts.
//
// It must not know how plans are made or carried out, nor read the environment.
package gce

import (
	"context"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/gce/model"
	"kops.local/kops/internal/platform/gce/spec"
)

// Options say how Google's services are reached.
type Options struct{}

// In returns the platform as the environment of a program says.
func In(platform.World) platform.Provider { return Provider(Options{}) }

// Provider returns the platform.
func Provider(o Options) platform.Provider {
	return platform.Provider{
		Platform: spec.Platform(), Remote: true,
		Kinds:     kinds.All(),
		Connect:   o.connect,
		Region:    model.Region,
		Model:     model.Build,
		Terraform: model.Terraform,
	}
}

func (o Options) connect(_ context.Context, c platform.Config) (*platform.Session, error) {
	return &platform.Session{Client: &kinds.Client{Clients: gceapi.Clients{Region: c.Region}}}, nil
}
