package newcluster

import (
	"kops.local/kops/api/create"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// Options are what a user can say of a new cluster; of Own, see Rules.
type Options = create.Options

// World is what new clusters and groups are made in.
type World struct {
	// Platform is what the cluster is to stand on, and Platforms are the names of all that
	// are known. Complete is what completion knows of it.
	Platform    Platform
	Platforms   []string
	Complete    complete.Platform
	Facts       *facts.Facts
	Channel     *versions.Channel
	KopsVersion string
	Features    complete.Features
}
