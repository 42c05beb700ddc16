package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ContainerdConfig configures the container runtime.
type ContainerdConfig struct {
	Address *string `json:"address,omitempty" flag:"address"`
	// ConfigAdditions adds values to containerd's configuration, by dotted path.
	ConfigAdditions map[string]intstr.IntOrString `json:"configAdditions,omitempty"`
	// ConfigOverride is the whole configuration file.
	ConfigOverride *string `json:"configOverride,omitempty" text:"lines"`
	// LogLevel is the verbosity; higher is more.
	LogLevel *string `json:"logLevel,omitempty" flag:"log-level"`
	// Packages replaces the archive that is downloaded.
	Packages *PackagesConfig `json:"packages,omitempty"`
	// RegistryMirrors are mirrors to try, by registry.
	RegistryMirrors map[string][]string `json:"registryMirrors,omitempty"`
	Root            *string             `json:"root,omitempty" flag:"root"`
	// SkipInstall uses the containerd of the image.
	SkipInstall bool    `json:"skipInstall,omitempty"`
	State       *string `json:"state,omitempty" flag:"state"`
	// Version is without a leading v.
	Version        *string          `json:"version,omitempty"`
	NvidiaGPU      *NvidiaGPUConfig `json:"nvidiaGPU,omitempty"`
	GVisor         *GVisorConfig    `json:"gvisor,omitempty"`
	Runc           *Runc            `json:"runc,omitempty"`
	SelinuxEnabled bool             `json:"selinuxEnabled,omitempty"`
	NRI            *NRIConfig       `json:"nri,omitempty"`
	// UseECRCredentialsForMirrors logs in to mirrors that are ECR registries.
	UseECRCredentialsForMirrors bool `json:"useECRCredentialsForMirrors,omitempty"`
	InstallCriCtl               bool `json:"installCriCtl,omitempty"`
	InstallNerdCtl              bool `json:"installNerdCtl,omitempty"`
	// SandboxImage is the pause image.
	SandboxImage *string `json:"sandboxImage,omitempty"`
}

// PackagesConfig locates an archive for each architecture; URL and hash (SHA-256, hex) go together.
type PackagesConfig struct {
	HashAmd64 *string `json:"hashAmd64,omitempty"`
	HashArm64 *string `json:"hashArm64,omitempty"`
	URLAmd64  *string `json:"urlAmd64,omitempty"`
	URLArm64  *string `json:"urlArm64,omitempty"`
}

// Runc configures the low-level runtime under containerd.
type Runc struct {
	Version  *string         `json:"version,omitempty"`
	Packages *PackagesConfig `json:"packages,omitempty"`
}

// NvidiaGPUConfig configures the NVIDIA driver and runtime.
type NvidiaGPUConfig struct {
	// Package is the driver's package name.
	Package string `json:"package,omitempty"`
	Enabled *bool  `json:"enabled,omitempty"`
	// Image replaces the default image of the version.
	Image        string              `json:"image,omitempty"`
	DCGMExporter *DCGMExporterConfig `json:"dcgmExporter,omitempty"`
}

// DCGMExporterConfig exports GPU metrics.
type DCGMExporterConfig struct {
	Enabled bool `json:"enabled,omitempty"`
}

// GVisorConfig configures the gVisor sandbox, for groups of role Node.
type GVisorConfig struct {
	Enabled *bool `json:"enabled,omitempty"`
	// Platform is the platform of gVisor, such as systrap.
	Platform string `json:"platform,omitempty"`
}

// NRIConfig configures containerd's node resource interface.
type NRIConfig struct {
	Enabled                   *bool            `json:"enabled,omitempty"`
	PluginRegistrationTimeout *metav1.Duration `json:"pluginRegistrationTimeout,omitempty"`
	PluginRequestTimeout      *metav1.Duration `json:"pluginRequestTimeout,omitempty"`
}
