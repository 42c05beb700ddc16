package model

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/template"
)

// controllerAt returns the URL of a kops-controller.
func controllerAt(host string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(ports.Controller)) + "/"
}

// hostMark returns the placeholder in the boot configuration for the i-th host while it is not
// known; no host has such a name.
func hostMark(i int) string { return fmt.Sprintf("@host-%d@", i) }

// UserData returns what the machines of a group run at their first boot; it is zero if they run
// nothing. hosts are where they reach the control plane if the cluster's names are not published:
// the API, which is one host or the addresses of several, or, for machines that only run an API
// server, the addresses of etcd. Otherwise they are not used.
func UserData(in Input, g *api.InstanceGroup, hosts ...resource.Value) (resource.Content, error) {
	if g.IsBastion() {
		if len(g.Spec.AdditionalUserData) == 0 {
			return resource.Content{}, nil
		}
		return resource.Text(multipart(nil, g.Spec.AdditionalUserData)), nil
	}
	in, err := in.Shared()
	if err != nil {
		return resource.Content{}, err
	}
	return in.userData(g, in.shared.configs[g.Name], hosts)
}

// Script declares the file with a group's user data, for machines that are not created by kops. It
// comes after the keysets, because the user data depends on them.
func Script(in Input, g *api.InstanceGroup, apiHost resource.Value, keysets []resource.Address) (resource.Node, error) {
	content, err := UserData(in, g, apiHost)
	if err != nil {
		return resource.Node{}, err
	}
	base := in.Buckets.Location(in.spec().ConfigStore.Base)
	n := base.Node("nodeupscript-"+g.Name, layout.UserData(string(g.Spec.Role), g.Name), content, false)
	n.After = keysets
	return n, nil
}

// userData returns the user data of machines with a node configuration.
func (in Input) userData(g *api.InstanceGroup, config []byte, hosts []resource.Value) (resource.Content, error) {
	boot, err := in.bootConfig(g, config, hosts)
	if err != nil {
		return resource.Content{}, err
	}
	text, err := boot.Encode()
	if err != nil {
		return resource.Content{}, err
	}
	written := resource.Lit(string(text))
	if in.noDNS() {
		written = substitute(string(text), hosts, 0)
	}
	compressed := false
	if known, ok := written.Known(); ok && isTrue(g.Spec.CompressUserData) {
		packed, err := compress(known)
		if err != nil {
			return resource.Content{}, err
		}
		written, compressed = resource.Lit(packed), true
	}
	script, err := in.script(g, written, compressed)
	if err != nil {
		return resource.Content{}, err
	}
	out := resource.Text(script)
	if len(g.Spec.AdditionalUserData) > 0 {
		out = resource.Text(multipart(&script, g.Spec.AdditionalUserData))
	}
	if in.keysInUserData(g) != "" {
		out = out.Hide()
	}
	return out, nil
}

func (in Input) bootConfig(g *api.InstanceGroup, config []byte, hosts []resource.Value) (*nodeconfig.Boot, error) {
	b := &nodeconfig.Boot{
		CloudProvider: string(in.Cluster.CloudProviderID()), ClusterName: in.Cluster.Name,
		InstanceGroupName: g.Name, InstanceGroupRole: string(g.Spec.Role), NodeupConfigHash: nodeconfig.Hash(config),
	}
	if g.HasAPIServer() {
		b.ConfigBase = in.spec().ConfigStore.Base
		if in.noDNS() && !g.IsControlPlane() {
			b.EtcdIPs = addresses(hosts)
		}
		return b, nil
	}
	name := hostnames.Controller(in.Cluster.Name)
	b.ConfigServer = &nodeconfig.ConfigServer{CACertificates: in.Keysets[pki.KubernetesCA].Bundle()}
	if !in.noDNS() {
		b.ConfigServer.Servers = []string{controllerAt(name)}
		return b, nil
	}
	b.ConfigServer.TLSServerName = name
	if len(hosts) == 0 {
		hosts = []resource.Value{{}}
	}
	for i, h := range hosts {
		host, known := h.Known()
		address, err := netip.ParseAddr(host)
		switch {
		case !known, err != nil && host != "" && len(hosts) == 1:
			b.ConfigServer.Servers = append(b.ConfigServer.Servers, controllerAt(hostMark(i)))
		case host == "":
			return nil, fmt.Errorf("group %s: no address of the API is given, and the cluster's names are not published", g.Name)
		case err != nil:
			return nil, fmt.Errorf("group %s: %s is not the address of an API server; there are several", g.Name, h)
		default:
			b.APIServerIPs = append(b.APIServerIPs, host)
			b.ConfigServer.Servers = append(b.ConfigServer.Servers, controllerAt(address.String()))
		}
	}
	return b, nil
}

// addresses returns the known hosts, and placeholders for the others.
func addresses(hosts []resource.Value) []string {
	var out []string
	for i, h := range hosts {
		switch host, known := h.Known(); {
		case !known:
			out = append(out, hostMark(i))
		case host != "":
			out = append(out, host)
		}
	}
	return out
}

// substitute replaces the placeholders in a text with the hosts from the nth on.
func substitute(text string, hosts []resource.Value, n int) resource.Value {
	if n == len(hosts) {
		return resource.Lit(text)
	}
	var parts []resource.Value
	for i, s := range strings.Split(text, hostMark(n)) {
		if i > 0 {
			parts = append(parts, hosts[n])
		}
		parts = append(parts, substitute(s, hosts, n+1))
	}
	return resource.Concat(parts...)
}

func compress(text string) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write([]byte(text))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("compress boot configuration: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()) + "\n", nil
}

//go:embed boot.sh.tmpl
var bootScript string

// configMark is the placeholder for the boot configuration in the script.
const configMark = "@boot-config@"

// script returns the boot script with the boot configuration.
func (in Input) script(g *api.InstanceGroup, config resource.Value, compressed bool) (resource.Value, error) {
	t, err := template.Parse("boot.sh", bootScript, template.Funcs{"shell": shellQuote, "word": shellWord, "join": strings.Join})
	if err != nil {
		return resource.Value{}, fmt.Errorf("read the boot script: %w", err)
	}
	view := bootView{Config: configMark, Compressed: compressed, Env: in.exports(g), Command: in.Traits.Machines.BootCommand, StoreKeys: in.keysInUserData(g)}
	if at := in.StoreKeys().Name; g.HasAPIServer() && at != storekeys.UserData {
		view.Keys = at
	}
	for _, a := range in.arches() {
		f := in.nodeup(g, a)
		f.URLs = slices.Clone(f.URLs)
		for i, u := range f.URLs {
			f.URLs[i] = in.scriptURL(u)
		}
		view.Downloads = append(view.Downloads, nodeupOf{strings.ToUpper(string(a)), f})
	}
	view.Fetches = in.fetches(view)
	if at := in.programs(g) + "/"; !g.HasAPIServer() && view.downloads(at) {
		view.Controller = strings.TrimSuffix(strings.TrimPrefix(at, "https://"), "/")
	}
	if p := in.spec().Networking.EgressProxy; p != nil && p.HTTPProxy.Host != "" {
		view.Proxy, view.NoProxy = staticpod.ProxyURL(p), p.Excludes
	}
	text, err := t.Execute(view)
	if err != nil {
		return resource.Value{}, fmt.Errorf("write the boot script: %w", err)
	}
	at := strings.LastIndex(text, configMark) // no text of the user's follows it
	return resource.Concat(resource.Lit(text[:at]), config, resource.Lit(text[at+len(configMark):])), nil
}

// bootView is the data for the template of the boot script.
type bootView struct {
	Config     string
	Compressed bool
	Env        [][2]string
	Downloads  []nodeupOf
	// Keys is the platform's place that has the keys of the store, if any; if that is the user data,
	// StoreKeys are the keys instead.
	Keys, StoreKeys string
	// Fetches has how to fetch nodeup from stores, sorted by scheme.
	Fetches []storeFetch
	// Controller is host:port of kops-controller, if the machine fetches from it.
	Controller string
	Proxy      string
	NoProxy    string
	// Command is the platform's own, if any.
	Command string
}

// nodeupOf is the nodeup for an architecture, as the script spells it.
type nodeupOf struct {
	Arch string
	download.File
}

// storeFetch is the commands with which the script fetches from stores with a scheme.
type storeFetch struct{ Scheme, Script string }

// keysMissing is what remains to do for an S3 server whose keys are not in the environment, if the
// platform has no buckets of its own.
const keysMissing = "      failed credentials \"the environment has no S3_ENDPOINT\"\n      return 1\n"

// fetches lists the stores of nodeup's URLs.
func (in Input) fetches(v bootView) []storeFetch {
	known := map[string]string{"s3": keysMissing}
	maps.Copy(known, in.Traits.Store.Fetch)
	if v.Keys != "" {
		known["s3"] = in.Traits.Store.FetchWithKeys
	}
	var out []storeFetch
	for _, scheme := range slices.Sorted(maps.Keys(known)) {
		if v.downloads(scheme + "://") {
			out = append(out, storeFetch{scheme, known[scheme]})
		}
	}
	return out
}

func (v bootView) downloads(prefix string) bool {
	return slices.ContainsFunc(v.Downloads, func(d nodeupOf) bool {
		return slices.ContainsFunc(d.URLs, func(u string) bool { return strings.HasPrefix(u, prefix) })
	})
}

// exports lists the environment that the script sets up, sorted by name.
func (in Input) exports(g *api.InstanceGroup) [][2]string {
	env := map[string]string{}
	if g.HasAPIServer() {
		for _, n := range in.storeVariables() {
			if v := in.Environment[n]; v != "" {
				env[n] = v
			}
		}
		if at := in.StoreKeys(); !at.IsZero() {
			env[storekeys.Variable] = at.String()
		}
	}
	if name := in.Traits.Store.RegionVariable; name != "" {
		env[name] = in.Region
	}
	var out [][2]string
	for _, n := range slices.Sorted(maps.Keys(env)) {
		out = append(out, [2]string{n, env[n]})
	}
	return out
}

// shellQuote quotes a text as one word of a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shellWord is like shellQuote, for texts that mostly need no quotes, and have none in kOps'
// scripts.
func shellWord(s string) string {
	harmless := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	return shellQuote(s)
}

// multipart joins a script and further parts into one document that cloud-init splits again. The
// text of a part is never taken for a header, nor for the end of the part.
func multipart(script *resource.Value, more []api.UserData) resource.Value {
	boundary := "MIMEBOUNDARY"
	for slices.ContainsFunc(more, func(u api.UserData) bool { return strings.Contains(u.Content, "--"+boundary) }) {
		boundary += "X"
	}
	out := []resource.Value{resource.Lit("Content-Type: multipart/mixed; boundary=\"" + boundary + "\"\nMIME-Version: 1.0\n\n")}
	part := func(name, kind string, content resource.Value) {
		out = append(out, resource.Lit("--"+boundary+"\nContent-Disposition: attachment; filename=\""+headerText(name)+"\"\nContent-Transfer-Encoding: 7bit\nContent-Type: "+
			headerText(kind)+"\nMime-Version: 1.0\n\n"), content, resource.Lit("\n"))
	}
	if script != nil {
		part("nodeup.sh", "text/x-shellscript", *script)
	}
	for _, u := range more {
		part(u.Name, u.Type, resource.Lit(u.Content))
	}
	return resource.Concat(append(out, resource.Lit("--"+boundary+"--\n"))...)
}

// headerText returns a text for use within the quotes of an RFC 2045 header, on one line.
func headerText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, s)
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
}
