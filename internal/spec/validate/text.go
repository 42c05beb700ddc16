package validate

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/engine/redact"
)

// characters refuses control characters in every text of a spec. Most texts end up in a flag, a file or a
// manifest, where a line break would begin something else. A field that takes several lines is tagged text:"lines".
func characters(c *Check, spec reflect.Value) {
	kind, _, _ := strings.Cut(c.object, "/")
	eachField("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		if f.Tag.Get("text") == "lines" {
			return false
		}
		eachText(path, v, func(path, text string) { c.oneLine(compat.OlderPath(kind, path), text) })
		return true
	})
}

// passwords warns of passwords in URLs. Machines get the values of a spec in the clear.
func passwords(c *Check, spec reflect.Value) {
	kind, _, _ := strings.Cut(c.object, "/")
	eachField("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		eachText(path, v, func(path, text string) {
			proxy := strings.HasSuffix(path, ".httpProxy.host") && strings.Contains(text, "@") // it needs no scheme
			if proxy || redact.HasUserinfo(text) {
				c.Warn(compat.OlderPath(kind, path), "", "has a URL with a user or a password, which user data, Terraform's files and the node configuration show to everyone who can read them",
					"remove it, and let the server know machines by their network or their addresses; for registries of images: kops create secret dockerconfig")
			}
		})
		return true
	})
}

// eachText visits the texts of a value that is a text, a list or a map of texts, keys included.
func eachText(path string, v reflect.Value, visit func(path, text string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(path, v.Elem(), visit)
		}
	case reflect.String:
		visit(path, v.String())
	case reflect.Slice:
		for i := range v.Len() {
			eachText(At(path, i), v.Index(i), visit)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			visit(path, k.String())
			eachText(path+"["+k.String()+"]", v.MapIndex(k), visit)
		}
	}
}

// oneLine refuses control characters.
func (c *Check) oneLine(path, text string) {
	i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
	switch {
	case i < 0:
	case strings.Trim(text[i:], "\r\n") == "":
		c.Bad(path, beginning(text), "ends with a line break", "write it on one line; YAML keeps the break after | and >, and drops it after |- and >-")
	default:
		c.Bad(path, beginning(text), "has a line break or another control character", "remove it")
	}
}

// hosts checks the names of hosts and domains, which machines write into files and certificates.
func hosts(c *Check) {
	s := c.Spec
	c.domain("spec.clusterDNSDomain", s.ClusterDNSDomain)
	if d := s.KubeDNS; d != nil {
		c.domain("spec.kubeDNS.domain", d.Domain)
		for _, name := range sortedKeys(d.StubDomains) {
			c.domain("spec.kubeDNS.stubDomains["+name+"]", name)
		}
	}
	c.domain("spec.masterPublicName", s.API.PublicName)
	if d := s.ServiceAccountIssuerDiscovery; d != nil {
		c.noWayUp("spec.serviceAccountIssuerDiscovery.discoveryStore", d.DiscoveryStore)
	}
	c.noWayUp("spec.configBase", s.ConfigStore.Base)
}

// domain checks the name of a host or a domain; empty is allowed.
func (c *Check) domain(path, name string) {
	if name != "" && len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(name, ".")))) > 0 {
		c.Bad(path, beginning(name), "is not a DNS name", "use letters, digits, dots and dashes")
	}
}

// noWayUp refuses a folder that leads out of the one that it seems to be in.
func (c *Check) noWayUp(path, folder string) {
	if slices.Contains(strings.Split(folder, "/"), "..") {
		c.Bad(path, folder, "has .. in it", "write the folder that is meant")
	}
}

// registryName matches a registry as containerd names its folder: a host with a port at most.
var registryName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]+)?$`)

// registryMirrors checks mirrors by registry. The registry becomes the name of a folder.
func registryMirrors(c *Check, mirrors map[string][]string) {
	for _, registry := range sortedKeys(mirrors) {
		path := fmt.Sprintf("spec.containerd.registryMirrors[%s]", registry)
		if registry != "*" && registry != "_default" && !registryName.MatchString(registry) {
			c.Bad(path, beginning(registry), "is not a registry", "write a host such as docker.io, with a port if it has one, or * for all")
		}
		for i, m := range mirrors[registry] {
			host, _, _ := strings.Cut(m, "/")
			u, err := url.Parse(m)
			web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
			if !web && !registryName.MatchString(host) || strings.ContainsAny(m, "\"'\\ ") {
				c.Bad(At(path, i), beginning(m), "is not the URL of a registry", "write one such as https://mirror.example.com")
			}
		}
	}
}

// sectionLine matches a line that begins a section of a systemd unit.
var sectionLine = regexp.MustCompile(`(?m)^[ \t]*\[(\w+)\][ \t]*$`)

// hookSections warns of a hook whose manifest is a whole unit, while it is taken as the body of one section.
func hookSections(c *Check, path string, h api.HookSpec) {
	if h.UseRawManifest {
		return
	}
	if m := sectionLine.FindString(h.Manifest); m != "" {
		c.Warn(path+".manifest", strings.TrimSpace(m), "begins a section, and the manifest is written as the body of [Service]", "set useRawManifest: true for a whole unit, or write only the lines of [Service]")
	}
}
