package validate

import (
	"fmt"
	"net/url"
	paths "path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/signed"
)

// cloudLabels checks tags for cloud resources; group is the name of the group that has them, or "".
func cloudLabels(c *Check, labels map[string]string, group string) {
	for _, key := range sortedKeys(labels) {
		path := "spec.cloudLabels[" + key + "]"
		c.tag(path, key, labels[key])
		switch {
		case key == "Name" || key == "KubernetesCluster":
			c.Bad(path, labels[key], "is a tag that kops sets", "choose another key")
		case key == api.LabelInstanceGroup && group != "":
			if labels[key] != group {
				c.Bad(path, labels[key], "is not the name of the group", "write "+group+", or remove it")
			}
		default:
			for _, prefix := range []string{"kubernetes.io/cluster/", "k8s.io/role/", "kops.k8s.io/", "wanted.kops.k8s.io/"} {
				if strings.HasPrefix(key, prefix) {
					c.Bad(path, labels[key], "begins with "+prefix+", which is reserved for kops", "choose another key")
				}
			}
		}
	}
}

func assets(c *Check) {
	a := c.Spec.Assets
	if a != nil && text(a.ContainerProxy) != "" && text(a.ContainerRegistry) != "" {
		c.Bad("spec.assets.containerProxy", text(a.ContainerProxy), "cannot be combined with containerRegistry", "remove one of them")
	}
}

// trustedKeys checks the public keys for the index of the user's files.
func trustedKeys(c *Check) {
	a := c.Spec.Assets
	if a == nil {
		return
	}
	for i, k := range a.TrustedKeys {
		if _, err := signed.ParseKey(k); err != nil {
			c.Bad(At("spec.assets.trustedKeys", i), k, "cannot be used: "+err.Error(), "write the public key that kops bundle sign prints")
		}
	}
	if len(a.TrustedKeys) > 0 && text(a.FileRepository) == "" && c.input.Strict {
		c.Bad("spec.assets.trustedKeys", fmt.Sprint(len(a.TrustedKeys)), "have no effect without fileRepository", "set spec.assets.fileRepository, or remove the keys")
	}
}

func fileRepository(c *Check) {
	a := c.Spec.Assets
	if a == nil || text(a.FileRepository) == "" {
		return
	}
	const path = "spec.assets.fileRepository"
	value := text(a.FileRepository)
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		c.Bad(path, value, "is not the URL of a file repository", "write a URL such as https://files.example.com/kops")
		return
	}
	own := c.platform.Store.Files
	if !slices.Contains(append([]string{"http", "https"}, own...), u.Scheme) {
		remedy := "use https"
		for _, s := range own {
			remedy += " or " + s
		}
		c.Bad(path, value, "has a scheme that machines on "+c.title()+" cannot read", remedy)
	}
}

// egressProxy checks what every machine writes into system files, which have no quoting.
func egressProxy(c *Check) {
	if p := c.Spec.Networking.EgressProxy; p != nil {
		c.plain("spec.egressProxy.httpProxy.host", p.HTTPProxy.Host)
		c.plain("spec.egressProxy.excludes", p.Excludes)
	}
}

// plain rejects spaces, quotes and other characters with a special meaning in system files, and
// non-ASCII characters.
func (c *Check) plain(path, value string) {
	i := strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`$\\", r) })
	if i >= 0 {
		c.Bad(path, value, "contains a space, a quote, a dollar sign, a backslash, or a character that is not printable ASCII", "remove it")
	}
}

func fileAssets(c *Check, list []api.FileAssetSpec) {
	for i, f := range list {
		path := At("spec.fileAssets", i)
		c.Need(f.Name != "", path+".name", "specify the path of the file")
		c.Need(f.Content != "", path+".content", "specify the content of the file")
		if f.Path != "" && !paths.IsAbs(f.Path) {
			c.Bad(path+".path", f.Path, "does not begin with /", "write an absolute path")
		}
		if _, err := strconv.ParseUint(f.Mode, 8, 12); f.Mode != "" && err != nil {
			c.Bad(path+".mode", f.Mode, "is not an octal number of up to four digits", `write one such as "0644"`)
		}
		if _, err := f.Data(); err != nil {
			c.Bad(path+".content", shorten(f.Content), "is not base64", "encode it, or remove isBase64")
		}
		if first := slices.IndexFunc(list[:i], func(o api.FileAssetSpec) bool { return hides(o, f) }); first >= 0 {
			field := ".path"
			if f.Path == "" {
				field = ".name"
			}
			c.Warn(path+field, targetPath(f), "is also the path of "+At("spec.fileAssets", first)+", which all machines get instead", "choose another path, or remove one of them")
		}
	}
}

// shorten returns a text, or the first bytes of a long one.
func shorten(text string) string {
	const most = 32
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// targetPath returns where a file is written, or its name below a folder of kops.
func targetPath(f api.FileAssetSpec) string {
	if f.Path == "" {
		return f.Name
	}
	return paths.Clean(f.Path)
}

// hides reports whether every machine that would get the later file gets the earlier one instead,
// as the first file with a path wins.
func hides(earlier, later api.FileAssetSpec) bool {
	if targetPath(earlier) == "" || targetPath(earlier) != targetPath(later) {
		return false
	}
	apart := func(r api.InstanceGroupRole) bool { return !slices.Contains(earlier.Roles, r) }
	return len(earlier.Roles) == 0 || len(later.Roles) > 0 && !slices.ContainsFunc(later.Roles, apart)
}

// unitName matches a name that systemd accepts for a unit; it is also the name of a file.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.@\\-]*$`)

func hooks(c *Check, list []api.HookSpec) {
	for i, h := range list {
		path := At("spec.hooks", i)
		if !unitName.MatchString(h.Name) || h.Name == "." || h.Name == ".." {
			c.Bad(path+".name", shorten(h.Name), "cannot be the name of a systemd unit", `use letters, digits and the characters : _ . @ \ -`)
		}
		if IsFalse(h.Enabled) {
			continue
		}
		if h.Manifest == "" && h.ExecContainer == nil {
			c.Bad(path, h.Name, "does nothing", "add a manifest or an execContainer")
		}
		if e := h.ExecContainer; e != nil {
			c.Need(e.Image != "", path+".execContainer.image", "specify the image")
		}
		hookSections(c, path, h)
		if !h.UseRawManifest {
			continue
		}
		c.Need(h.Manifest != "", path+".manifest", "specify the unit, or remove useRawManifest")
		if h.ExecContainer != nil {
			c.Bad(path+".execContainer", "", "cannot be combined with useRawManifest", "remove one of them")
		}
		if len(h.Before) > 0 {
			c.Bad(path+".before", strings.Join(h.Before, ","), "has no effect with useRawManifest", "write it in the manifest")
		}
		if len(h.Requires) > 0 {
			c.Bad(path+".requires", strings.Join(h.Requires, ","), "has no effect with useRawManifest", "write it in the manifest")
		}
	}
}

func rollingUpdate(c *Check, r *api.RollingUpdate, controlPlane bool) {
	if r == nil {
		return
	}
	unavailable, okUnavailable := c.machineCount("spec.rollingUpdate.maxUnavailable", r.MaxUnavailable)
	surge, okSurge := c.machineCount("spec.rollingUpdate.maxSurge", r.MaxSurge)
	if !okUnavailable || !okSurge {
		return
	}
	if controlPlane && r.MaxSurge != nil && surge != 0 {
		c.Bad("spec.rollingUpdate.maxSurge", r.MaxSurge.String(), "a control plane cannot have more machines than etcd members", "set it to 0")
	}
	if r.MaxUnavailable != nil && r.MaxSurge != nil && unavailable == 0 && surge == 0 {
		c.Bad("spec.rollingUpdate.maxSurge", r.MaxSurge.String(), "with maxUnavailable 0 as well, no machine can ever be replaced", "raise one of them")
	}
}

// minRepair is the minimum time for which a machine must be dead: Kubernetes takes 40 seconds to
// notice that a kubelet is silent, and a machine that reboots must not be replaced.
const minRepair = 2 * time.Minute

// repair checks when dead machines are replaced; above has the settings that apply where r has
// none.
func repair(c *Check, r, above *api.RepairSpec) {
	if r == nil {
		return
	}
	if r.MaxUnhealthy != nil && r.After == nil && (above == nil || above.After == nil) {
		c.Warn("spec.repair.maxUnhealthy", r.MaxUnhealthy.String(), "has no effect, because spec.repair.after is not set", "set spec.repair.after to the time after which dead machines are replaced, or remove it")
	}
	c.machineCount("spec.repair.maxUnhealthy", r.MaxUnhealthy)
	if a := r.After; a != nil && a.Duration != 0 && a.Duration < minRepair {
		c.Bad("spec.repair.after", a.Duration.String(), "is so short that machines that only reboot would be replaced", "write 2m or more, or 0 to leave dead machines alone")
	}
}

// machineCount returns a number of machines, or a percentage as a number out of 100.
func (c *Check) machineCount(path string, v *intstr.IntOrString) (int, bool) {
	if v == nil {
		return 0, true
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
	if err != nil || n < 0 {
		c.Bad(path, v.String(), "is neither a number of machines nor a percentage", `write a number from 0, or a percentage such as "10%"`)
		return 0, false
	}
	return n, true
}
