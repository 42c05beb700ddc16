package newcluster

import (
	"kops.local/kops/api/create"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// Options are the options for a new cluster; for Own, see Rules.
type Options = create.Options

// World is the environment in which new clusters and groups are described.
type World struct {
	// Platform is the platform of the cluster, and Platforms are the names of all known ones.
	// Complete is what completion needs to know about it.
	Platform    Platform
	Platforms   []string
	Complete    complete.Platform
	Facts       *facts.Facts
	Channel     *versions.Channel
	KopsVersion string
	Features    complete.Features
}
