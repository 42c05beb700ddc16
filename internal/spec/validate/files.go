package validate

import (
	"encoding/base64"
	"fmt"
	"net/url"
	paths "path"
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
			for _, prefix := range []string{"kubernetes.io/cluster/", "k8s.io/role/", "kops.k8s.io/"} {
				if strings.HasPrefix(key, prefix) {
					c.Bad(path, labels[key], "begins with "+prefix+", which kops keeps for itself", "choose another key")
				}
			}
		}
	}
}

func assets(c *Check) {
	a := c.Spec.Assets
	if a != nil && text(a.ContainerProxy) != "" && text(a.ContainerRegistry) != "" {
		c.Bad("spec.assets.containerProxy", text(a.ContainerProxy), "cannot stand together with containerRegistry", "leave one of them")
	}
}

// trustedKeys checks the keys that sign the index of the user's files.
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
	if len(a.TrustedKeys) > 0 && text(a.FileRepository) == "" && c.in.Strict {
		c.Bad("spec.assets.trustedKeys", fmt.Sprint(len(a.TrustedKeys)), "are keys for no files: there is no fileRepository", "set spec.assets.fileRepository, or remove the keys")
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
		c.Bad(path, value, "is not the URL of a place for files", "write a URL such as https://files.example.com/kops")
		return
	}
	own := c.on.Store.Files
	if !slices.Contains(append([]string{"http", "https"}, own...), u.Scheme) {
		remedy := "use https"
		for _, s := range own {
			remedy += " or " + s
		}
		c.Bad(path, value, "has a scheme that machines on "+c.title()+" cannot read", remedy)
	}
}

// egressProxy checks what every machine writes into files of its system, which have
// no way to quote.
func egressProxy(c *Check) {
	if p := c.Spec.Networking.EgressProxy; p != nil {
		c.plain("spec.egressProxy.httpProxy.host", p.HTTPProxy.Host)
		c.plain("spec.egressProxy.excludes", p.Excludes)
	}
}

// plain refuses spaces, quotes and what else has a meaning of its own in a file of a
// system, or is not ASCII.
func (c *Check) plain(path, value string) {
	i := strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`$\\", r) })
	if i >= 0 {
		c.Bad(path, value, "contains a space, a quote, a dollar sign, a backslash, or a character that is not printable ASCII", "remove it")
	}
}

func fileAssets(c *Check, list []api.FileAssetSpec) {
	for i, f := range list {
		path := At("spec.fileAssets", i)
		c.Need(f.Name != "", path+".name", "name the file")
		c.Need(f.Content != "", path+".content", "write what the file holds")
		if f.Path != "" && !paths.IsAbs(f.Path) {
			c.Bad(path+".path", f.Path, "does not begin with /", "write the whole path")
		}
		if _, err := strconv.ParseUint(f.Mode, 8, 12); f.Mode != "" && err != nil {
			c.Bad(path+".mode", f.Mode, "is not an octal number of up to four digits", `write one such as "0644"`)
		}
		if f.IsBase64 && !isBase64(f.Content) {
			c.Bad(path+".content", beginning(f.Content), "is not base64", "encode it, or remove isBase64")
		}
		if first := slices.IndexFunc(list[:i], func(o api.FileAssetSpec) bool { return hides(o, f) }); first >= 0 {
			field := ".path"
			if f.Path == "" {
				field = ".name"
			}
			c.Warn(path+field, place(f), "is also the path of "+At("spec.fileAssets", first)+", which all machines get instead", "choose another, or remove one")
		}
	}
}

// isBase64 reports whether machines can decode the text; they need no padding.
func isBase64(text string) bool {
	_, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	return err == nil
}

// beginning is a text, or the first bytes of a long one.
func beginning(text string) string {
	const most = 32
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// place is where a file is written, or its name below a folder of kops.
func place(f api.FileAssetSpec) string {
	if f.Path == "" {
		return f.Name
	}
	return paths.Clean(f.Path)
}

// hides reports whether every machine that would get the later file gets the
// earlier one instead, as the first of a path wins.
func hides(earlier, later api.FileAssetSpec) bool {
	if place(earlier) == "" || place(earlier) != place(later) {
		return false
	}
	apart := func(r api.InstanceGroupRole) bool { return !slices.Contains(earlier.Roles, r) }
	return len(earlier.Roles) == 0 || len(later.Roles) > 0 && !slices.ContainsFunc(later.Roles, apart)
}

func hooks(c *Check, list []api.HookSpec) {
	for i, h := range list {
		if isFalse(h.Enabled) {
			continue
		}
		path := At("spec.hooks", i)
		if h.Manifest == "" && h.ExecContainer == nil {
			c.Bad(path, h.Name, "does nothing", "give it a manifest or an execContainer")
		}
		if e := h.ExecContainer; e != nil {
			c.Need(e.Image != "", path+".execContainer.image", "name the image")
		}
		hookSections(c, path, h)
		if !h.UseRawManifest {
			continue
		}
		c.Need(h.Manifest != "", path+".manifest", "write the unit, or remove useRawManifest")
		if h.ExecContainer != nil {
			c.Bad(path+".execContainer", "", "cannot stand together with useRawManifest", "leave one of them")
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
	unavailable, okUnavailable := c.share("spec.rollingUpdate.maxUnavailable", r.MaxUnavailable)
	surge, okSurge := c.share("spec.rollingUpdate.maxSurge", r.MaxSurge)
	if !okUnavailable || !okSurge {
		return
	}
	if controlPlane && r.MaxSurge != nil && surge != 0 {
		c.Bad("spec.rollingUpdate.maxSurge", r.MaxSurge.String(), "a control plane cannot have more machines than etcd has members", "set it to 0")
	}
	if r.MaxUnavailable != nil && r.MaxSurge != nil && unavailable == 0 && surge == 0 {
		c.Bad("spec.rollingUpdate.maxSurge", r.MaxSurge.String(), "with maxUnavailable 0 as well, no machine can ever be replaced", "raise one of them")
	}
}

// leastRepair is the least time for which a machine must be dead: Kubernetes takes 40 seconds
// to notice that a kubelet is silent, and a machine that starts again must not be in a race.
const leastRepair = 2 * time.Minute

// repair checks when dead machines are replaced; above is what holds where r says nothing.
func repair(c *Check, r, above *api.RepairSpec) {
	if r == nil {
		return
	}
	if r.MaxUnhealthy != nil && r.After == nil && (above == nil || above.After == nil) {
		c.Warn("spec.repair.maxUnhealthy", r.MaxUnhealthy.String(), "has no effect, as no machine is replaced", "say after which time one is, in spec.repair.after, or remove it")
	}
	c.share("spec.repair.maxUnhealthy", r.MaxUnhealthy)
	if a := r.After; a != nil && a.Duration != 0 && a.Duration < leastRepair {
		c.Bad("spec.repair.after", a.Duration.String(), "is so short that machines which only start again would be replaced", "write 2m or more, or 0 to leave dead machines alone")
	}
}

// share is a number of machines or a percentage of 100.
func (c *Check) share(path string, v *intstr.IntOrString) (int, bool) {
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
