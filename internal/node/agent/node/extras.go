package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// extras adds the user's own files. The instance group's come first and take precedence.
func (b *builder) extras() error {
	seen := map[string]bool{}
	for _, f := range b.Config.FileAssets {
		path, mode := b.localPath(paths.FileAsset(f.Path, f.Name)), f.Mode
		if mode == "" {
			mode = "0440"
		}
		if seen[path] {
			continue
		}
		seen[path] = true
		content, err := f.Data()
		if err != nil {
			return fmt.Errorf("the file %s is not base64: %w", path, err)
		}
		bits, err := strconv.ParseUint(mode, 8, 12)
		if err != nil {
			return fmt.Errorf("the file %s: the mode %q is not an octal number such as 0644", path, mode)
		}
		if err := b.fileWith(path, content, fmt.Sprintf("%04o", bits), 0); err != nil {
			return err
		}
		b.userFiles = append(b.userFiles, resource.Address{Kind: host.Files.Name, Name: path})
	}
	if s, ok := b.Secrets[pki.DockerConfig]; ok {
		return b.secret(b.places.home+"/.docker/config.json", s.Reveal(), 0)
	}
	return nil
}

// namedHook is one of the user's units.
type namedHook struct {
	name string
	api.HookSpec
}

// namedHooks returns the user's own units. The instance group's come first and take precedence.
func (b *builder) namedHooks() []namedHook {
	var out []namedHook
	for i, hooks := range b.Config.Hooks {
		for n, h := range hooks {
			name := h.Name
			if name == "" {
				name = fmt.Sprintf("kops-hook-%d", n)
				if i == 0 {
					name += "-ig"
				}
			}
			if !strings.Contains(name, ".") {
				name += ".service"
			}
			if !slices.ContainsFunc(out, func(o namedHook) bool { return o.name == name }) {
				out = append(out, namedHook{name, h})
			}
		}
	}
	return out
}

// precedes reports whether a hook must be started before a service. Systemd ensures that order
// only if it starts both in one transaction, as when the machine boots.
func (h namedHook) precedes(service string) bool {
	return slices.ContainsFunc(h.Before, func(s string) bool { return s == service || s+".service" == service })
}

// isEarly reports whether a hook must be started before the container runtime.
func (h namedHook) isEarly() bool { return h.precedes("containerd.service") && h.ExecContainer == nil }

// hooks adds the hooks that are early, or the others.
func (b *builder) hooks(early bool) error {
	for _, h := range b.namedHooks() {
		if h.isEarly() != early {
			continue
		}
		a, err := b.hook(h.name, h.HookSpec)
		if err != nil {
			return fmt.Errorf("hook %s: %w", h.name, err)
		}
		if a.Name == "" {
			continue
		}
		if early {
			b.runtimePrograms = append(b.runtimePrograms, a)
		}
		if h.precedes("kubelet.service") {
			b.node = append(b.node, a)
		}
	}
	return nil
}

// hook adds the unit of a hook and returns its address, or the zero address if the hook does nothing.
func (b *builder) hook(name string, h api.HookSpec) (resource.Address, error) {
	if h.Enabled != nil && !*h.Enabled {
		return add(b, &host.Units, name, host.Unit{Name: name, Off: true, Current: true})
	}
	var u strings.Builder
	switch {
	case h.UseRawManifest:
		u.WriteString(h.Manifest)
	case h.ExecContainer == nil && h.Manifest == "":
		return resource.Address{}, nil
	default:
		u.WriteString("[Unit]\nDescription=Hook " + strings.TrimSuffix(name, ".service") + "\n")
		for _, r := range h.Requires {
			u.WriteString("Requires=" + r + "\n")
		}
		for _, r := range h.Before {
			u.WriteString("Before=" + r + "\n")
		}
		if h.ExecContainer != nil {
			u.WriteString("Requires=containerd.service\nAfter=containerd.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n" + hookContainer(name, h.ExecContainer))
		} else {
			u.WriteString("\n[Service]\n" + h.Manifest + "\n")
		}
		u.WriteString("\n[Install]\nWantedBy=multi-user.target\n")
	}
	after := slices.Concat(b.packages, b.userFiles, b.runtime) // it may run programs from the user's packages and files
	return add(b, &host.Units, name, host.Unit{Name: name, Content: resource.Text(resource.Lit(u.String())), On: true, Current: true, Optional: true}, after...)
}

// hookContainer returns the command that runs a container with access to the whole machine.
func hookContainer(name string, c *api.ExecContainerAction) string {
	id := strings.TrimSuffix(name, ".service")
	args := []string{"/usr/bin/ctr", "--namespace", "k8s.io", "run", "--rm",
		"--mount", "type=bind,src=/,dst=/rootfs,options=rbind:rslave", "--mount", "type=bind,src=/var/run/dbus,dst=/var/run/dbus,options=rbind:rprivate",
		"--mount", "type=bind,src=/run/systemd,dst=/run/systemd,options=rbind:rprivate", "--net-host", "--privileged"}
	for _, k := range slices.Sorted(maps.Keys(c.Environment)) {
		args = append(args, "--env", quoteUnit(k+"="+c.Environment[k]))
	}
	args = append(args, c.Image, id)
	for _, a := range c.Command {
		args = append(args, quoteUnit(a))
	}
	return "ExecStartPre=/usr/bin/ctr --namespace k8s.io images pull " + c.Image + "\nExecStart=" + strings.Join(args, " ") + "\n"
}

// quoteUnit quotes a string as one argument of a command in a unit file.
func quoteUnit(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(s) + `"`
}

// fetchedFiles installs the files that the machine fetches.
func (b *builder) fetchedFiles() error {
	for _, line := range b.Config.Assets[b.Host.Arch] {
		a, err := host.NewAsset(line)
		if err != nil {
			return err
		}
		if err := b.install(a); err != nil {
			return err
		}
	}
	return nil
}

// cniArchive is the prefix of the name of the archive with the CNI plugins.
const cniArchive = "cni-plugins"

// install installs a fetched file at the place that its name implies; files that the machine does not use
// are not fetched.
func (b *builder) install(a host.Asset) error {
	base := a.Base()
	begins := func(s string) bool { return strings.HasPrefix(base, s) }
	login := b.Host.Traits.Registry.Name
	var program, folder, below string
	switch {
	case a.IsArchive() && begins(cniArchive):
		folder = cniBinaries
	case a.IsArchive() && (begins("nerdctl") || begins("crictl")):
		folder = b.places.tools
	case b.places.image != "" && isRuntime(a): // part of the image
		return nil
	case a.IsArchive():
		folder, below = "/usr/bin", "bin"
	case base == "kubelet":
		program = b.places.kubelet + "/kubelet"
	case base == "kubectl" && b.hasAPIServer():
		program = b.places.kubectl + "/kubectl"
	case begins("runc"):
		program = "/usr/sbin/runc"
	case login != "" && begins(login):
		program = ownBinaries + "/" + login
	default:
		return nil
	}
	fetched, err := add(b, &host.Assets, base, a)
	if err != nil {
		return err
	}
	var at resource.Address
	if program != "" {
		at, err = add(b, &host.Binaries, program, host.Binary{Path: program, Asset: a.File}, fetched)
	} else {
		at, err = add(b, &host.Archives, base, host.Archive{Folder: folder, Asset: a.File, Below: below}, fetched)
	}
	b.programs = append(b.programs, at)
	if isRuntime(a) {
		b.runtimePrograms = append(b.runtimePrograms, at)
	}
	return err
}
