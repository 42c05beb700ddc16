package node

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/spec/componentflags"
)

const (
	containerdConfigFile = "/etc/containerd/config.toml"
)

// containerdUnit is the service; type notify means that it counts as started once it serves.
const containerdUnit = `[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target dbus.service
%s
[Service]
EnvironmentFile=/etc/sysconfig/containerd
EnvironmentFile=-/etc/environment
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/bin/containerd -c /etc/containerd/config.toml $CONTAINERD_OPTS
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=%d

[Install]
WantedBy=multi-user.target
`

func (b *builder) containerd() error {
	c := b.Config.ContainerdConfig
	if c == nil {
		c = &api.ContainerdConfig{}
	}
	config, err := b.containerdConfig(c)
	if err != nil {
		return err
	}
	const file = containerdConfigFile
	if err := b.file(file, config); err != nil {
		return err
	}
	if c.ConfigOverride == nil {
		for _, registry := range slices.Sorted(maps.Keys(c.RegistryMirrors)) {
			if err := b.mirrors(registry, c.RegistryMirrors[registry]); err != nil {
				return err
			}
		}
	}
	if g := b.Config.GVisor; g != nil && isTrue(g.Enabled) {
		platform := g.Platform
		if platform == "" {
			platform = "systrap"
		}
		if err := b.file("/etc/containerd/runsc.toml", "[runsc_config]\n  platform = "+strconv.Quote(platform)+"\n"); err != nil {
			return err
		}
	}
	if err := b.file("/etc/crictl.yaml", "runtime-endpoint: unix:///run/containerd/containerd.sock\n"); err != nil {
		return err
	}
	const options = "/etc/sysconfig/containerd"
	opts := "CONTAINERD_OPTS=" + strings.Join(componentflags.Flags(c), " ") + "\n" + b.memoryEnvironment()
	if err := b.file(options, opts); err != nil {
		return err
	}
	after := slices.Concat(b.packages, b.runtimePrograms, []resource.Address{{Kind: "host_file", Name: file}, {Kind: "host_file", Name: options}})
	score := -999
	if b.Host.Contained { // a container may not lower its own OOM score
		score = 0
	}
	reads := append([]string{config, opts}, b.assetsThat(isRuntime)...)
	if b.cniFromTemplate() {
		if err := b.file(cniTemplateFile, cniTemplate); err != nil {
			return err
		}
		after, reads = append(after, resource.Address{Kind: host.Files.Name, Name: cniTemplateFile}), append(reads, cniTemplate)
	}
	if b.places.image != "" {
		a, err := b.ownContainerd(after, reads...)
		b.runtime = []resource.Address{a}
		return err
	}
	a, err := b.unit(ContainerdUnit, fmt.Sprintf(containerdUnit, b.needsMounts(), score), after, reads...)
	b.runtime = []resource.Address{a}
	return err
}

// isRuntime reports whether containerd needs a fetched file; the archive of a
// user's package may have any name.
func isRuntime(a host.Asset) bool {
	return a.IsArchive() && !strings.HasPrefix(a.Base(), cniArchive) || strings.HasPrefix(a.Base(), "runc")
}

// assetsThat lists the fetched files for which is returns true.
func (b *builder) assetsThat(is func(host.Asset) bool) []string {
	return slices.DeleteFunc(slices.Clone(b.Config.Assets[b.Host.Arch]), func(line string) bool {
		a, err := host.NewAsset(line)
		return err != nil || !is(a)
	})
}

// mirrors configures containerd's mirrors of a registry.
func (b *builder) mirrors(registry string, endpoints []string) error {
	folder := registry
	if registry == "*" {
		folder = "_default"
	}
	var text strings.Builder
	if registry != "*" {
		server := registry
		if registry == "docker.io" {
			server = "registry-1.docker.io"
		}
		fmt.Fprintf(&text, "server = %q\n\n", "https://"+server)
	}
	for _, e := range endpoints {
		fmt.Fprintf(&text, "[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", e)
	}
	return b.file("/etc/containerd/certs.d/"+folder+"/hosts.toml", text.String())
}

// table is a TOML document under construction.
type table map[string]any

// set sets a value at a path of keys.
func (t table) set(value any, path ...string) error {
	for i, key := range path[:len(path)-1] {
		next, ok := t[key].(table)
		if !ok {
			if t[key] != nil {
				return fmt.Errorf("%s is a value, so it cannot contain other keys", strings.Join(path[:i+1], "."))
			}
			next = table{}
			t[key] = next
		}
		t = next
	}
	t[path[len(path)-1]] = value
	return nil
}

// write writes the table's values, then its subtables, each sorted by name.
func (t table) write(w *strings.Builder, path string) {
	var tables []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		switch v := t[k].(type) {
		case table:
			tables = append(tables, k)
		case string:
			fmt.Fprintf(w, "%s = %q\n", tomlKey(k), v)
		default:
			fmt.Fprintf(w, "%s = %v\n", tomlKey(k), v)
		}
	}
	for _, k := range tables {
		below := path + tomlKey(k)
		inner := t[k].(table) //nolint:forcetypeassert // collected above
		if inner.holdsValues() {
			fmt.Fprintf(w, "\n[%s]\n", below)
		}
		inner.write(w, below+".")
	}
}

func (t table) holdsValues() bool {
	for _, v := range t {
		if _, ok := v.(table); !ok {
			return true
		}
	}
	return len(t) == 0
}

func tomlKey(k string) string {
	if k != "" && strings.Trim(k, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return k
	}
	return strconv.Quote(k)
}

// nriPlugin is the plugin that lets third-party programs take part in creating containers.
const nriPlugin = "io.containerd.nri.v1.nri"

// layout holds the paths of settings in containerd's configuration file.
type layout struct{ sandbox, images, runtime []string }

// layoutOf returns the start of the configuration file for a version of
// containerd, and its layout: file version 4 since 2.3, 3 since 2.0, and 2 before.
func layoutOf(version string) (table, layout) {
	if version != "" && !isAtLeast(version, 2, 0) {
		cri := []string{"plugins", "io.containerd.grpc.v1.cri"}
		return table{"version": 2}, layout{sandbox: append(slices.Clone(cri), "sandbox_image"), images: cri, runtime: cri}
	}
	t := table{"version": 3}
	if isAtLeast(version, 2, 3) {
		t["version"] = 4
	}
	images := []string{"plugins", "io.containerd.cri.v1.images"}
	return t, layout{sandbox: append(slices.Clone(images), "pinned_images", "sandbox"), images: images, runtime: []string{"plugins", "io.containerd.cri.v1.runtime"}}
}

func (b *builder) containerdConfig(c *api.ContainerdConfig) (string, error) {
	if c.ConfigOverride != nil {
		return *c.ConfigOverride, nil
	}
	version := text(c.Version)
	if b.Host.Containerd != "" {
		version = b.Host.Containerd
	}
	t, at := layoutOf(version)
	if b.places.image != "" && t["version"] == 4 { // an image may be rolled back to a release that does not know version 4
		t["version"] = 3
	}
	var err error
	set := func(value any, path ...string) {
		if err == nil {
			err = t.set(value, path...)
		}
	}
	if s := text(c.SandboxImage); s != "" {
		set(s, at.sandbox...)
	}
	if len(c.RegistryMirrors) > 0 {
		set("/etc/containerd/certs.d", slices.Concat(at.images, []string{"registry", "config_path"})...)
	}
	if b.Host.Contained { // the disk is the host's, which keeps what the layers were unpacked from
		set(true, slices.Concat(at.images, []string{"discard_unpacked_layers"})...)
	}
	driver := b.Config.KubeletConfig == nil || b.Config.KubeletConfig.CgroupDriver != "cgroupfs"
	set("runc", slices.Concat(at.runtime, []string{"containerd", "default_runtime_name"})...)
	runtime := func(name, kind string, options map[string]any) {
		set(kind, slices.Concat(at.runtime, []string{"containerd", "runtimes", name, "runtime_type"})...)
		for _, k := range slices.Sorted(maps.Keys(options)) {
			set(options[k], slices.Concat(at.runtime, []string{"containerd", "runtimes", name, "options", k})...)
		}
	}
	runtime("runc", "io.containerd.runc.v2", map[string]any{"SystemdCgroup": driver})
	if g := b.Config.NvidiaGPU; g != nil && isTrue(g.Enabled) {
		runtime("nvidia", "io.containerd.runc.v2", map[string]any{"SystemdCgroup": driver, "BinaryName": "/usr/bin/nvidia-container-runtime"})
	}
	if g := b.Config.GVisor; g != nil && isTrue(g.Enabled) {
		runtime("runsc", "io.containerd.runsc.v1", map[string]any{"TypeUrl": "io.containerd.runsc.v1.options", "ConfigPath": "/etc/containerd/runsc.toml"})
	}
	if b.cniFromTemplate() {
		set(cniTemplateFile, slices.Concat(at.runtime, []string{"cni", "conf_template"})...)
	}
	if c.SelinuxEnabled {
		set(true, slices.Concat(at.runtime, []string{"enable_selinux"})...)
	}
	if b.Host.Contained {
		set(true, slices.Concat(at.runtime, []string{"restrict_oom_score_adj"})...)
	}
	if n := c.NRI; n != nil && isTrue(n.Enabled) {
		set(false, "plugins", nriPlugin, "disable")
		if n.PluginRequestTimeout != nil {
			set(n.PluginRequestTimeout.Duration.String(), "plugins", nriPlugin, "plugin_request_timeout")
		}
		if n.PluginRegistrationTimeout != nil {
			set(n.PluginRegistrationTimeout.Duration.String(), "plugins", nriPlugin, "plugin_registration_timeout")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.ConfigAdditions)) {
		r := csv.NewReader(strings.NewReader(k))
		r.Comma = '.'
		path, perr := r.Read()
		if perr != nil {
			return "", fmt.Errorf("configAdditions: %q: %w", k, perr)
		}
		value := c.ConfigAdditions[k]
		set(parseLiteral(value.String()), path...)
	}
	if err != nil {
		return "", fmt.Errorf("configAdditions: %w", err)
	}
	var w strings.Builder
	t.write(&w, "")
	return w.String(), nil
}

// parseLiteral parses a user's value as a boolean, a number, or a string.
func parseLiteral(s string) any {
	switch s {
	case "true":
		return true
	case "false":
		return false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return s
}

// isAtLeast reports whether a version is at least major.minor.
func isAtLeast(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	c, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(c)
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}
