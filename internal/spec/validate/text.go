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
	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/spec/fields"
)

// characters rejects control characters in every text of a spec. Most texts end up in a flag, a
// file or a manifest, where a line break would start something else. A field that may have several
// lines is tagged text:"lines".
func characters(c *Check, spec reflect.Value) {
	fields.Each("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		if f.Tag.Get("text") == "lines" {
			return false
		}
		eachText(path, v, func(path, text string) {
			if message, remedy := notOneLine(text); message != "" {
				c.Bad(c.older(path), shorten(text), message, remedy)
			}
		})
		return true
	})
}

// passwords warns about passwords in URLs. Machines get the values of a spec in plain text.
func passwords(c *Check, spec reflect.Value) {
	fields.Each("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		eachText(path, v, func(path, text string) {
			if redact.Field(path, text) != text {
				c.Warn(c.older(path), "", "contains a URL with a user name or password, which everyone who can read user data, Terraform files or the node configuration can see",
					"remove it, and let the server authenticate machines by their network or addresses; for container registries: kops create secret dockerconfig")
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

// notOneLine returns what is wrong with a text that has control characters, or "".
func notOneLine(text string) (message, remedy string) {
	i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
	switch {
	case i < 0:
		return "", ""
	case strings.Trim(text[i:], "\r\n") == "":
		return "ends with a line break", "write it on one line; YAML keeps the line break after | and >, and removes it after |- and >-"
	}
	return "contains a line break or another control character", "remove it"
}

// hosts checks host and domain names, which machines write into files and certificates.
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
		c.checkInFolder("spec.serviceAccountIssuerDiscovery.discoveryStore", d.DiscoveryStore)
	}
	c.checkInFolder("spec.configBase", s.ConfigStore.Base)
	c.checkInFolder("spec.keyStore", s.ConfigStore.Keypairs)
	c.checkInFolder("spec.secretStore", s.ConfigStore.Secrets)
	for i, e := range s.EtcdClusters {
		if e.Backups != nil {
			c.checkInFolder(At("spec.etcdClusters", i)+".backups.backupStore", e.Backups.BackupStore)
		}
	}
}

// domain checks a host or domain name; empty is allowed.
func (c *Check) domain(path, name string) {
	if name != "" && len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(name, ".")))) > 0 {
		c.Bad(path, shorten(name), "is not a DNS name", "use letters, digits, dots and dashes")
	}
}

// checkInFolder rejects a folder that leads out of the one that it seems to be in. Web servers
// decode %2e%2e, so this is rejected, too.
func (c *Check) checkInFolder(path, folder string) {
	plain, err := url.PathUnescape(folder)
	if err != nil {
		plain = folder
	}
	if slices.Contains(strings.Split(plain, "/"), "..") {
		c.Bad(path, folder, "contains ..", "write the path without ..")
	}
}

// registryName matches a registry as containerd names its folder: a host, with an optional port.
var registryName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]+)?$`)

// registryMirrors checks mirrors by registry. The registry becomes the name of a folder.
func registryMirrors(c *Check, mirrors map[string][]string) {
	for _, registry := range sortedKeys(mirrors) {
		path := fmt.Sprintf("spec.containerd.registryMirrors[%s]", registry)
		if registry != "*" && registry != "_default" && !registryName.MatchString(registry) {
			c.Bad(path, shorten(registry), "is not a registry", "write a host such as docker.io, with a port if it has one, or * for all")
		}
		for i, m := range mirrors[registry] {
			host, _, _ := strings.Cut(m, "/")
			u, err := url.Parse(m)
			web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
			if !web && !registryName.MatchString(host) || strings.ContainsAny(m, "\"'\\ ") {
				c.Bad(At(path, i), shorten(m), "is not the URL of a registry", "write one such as https://mirror.example.com")
			}
		}
	}
}

// sectionLine matches a line that starts a section of a systemd unit.
var sectionLine = regexp.MustCompile(`(?m)^[ \t]*\[(\w+)\][ \t]*$`)

// hookSections warns about a hook whose manifest is a whole unit, although it is used as the body
// of one section.
func hookSections(c *Check, path string, h api.HookSpec) {
	if h.UseRawManifest {
		return
	}
	if m := sectionLine.FindString(h.Manifest); m != "" {
		c.Warn(path+".manifest", strings.TrimSpace(m), "begins a section, but the manifest is the content of [Service]", "set useRawManifest: true to write a whole unit, or write only the lines of [Service]")
	}
}
