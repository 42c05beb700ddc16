package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The nodes of the tree that a metadata server answers: texts, numbers, folders with names
// (of a bag the names are anybody's), folders with indices, and lists that are told line by line.
type (
	folder map[string]any
	bag    folder
	shelfs []any
	lines  []string
)

const (
	metadataRoot = "/computeMetadata/v1"
	flavor       = "Metadata-Flavor"
	google       = "Google"
)

// Metadata is the metadata server of an instance, as
// https://cloud.google.com/compute/docs/metadata/querying-metadata describes it. It answers what
// the instance is when it is asked, and 503 where there is none. It does not wait for changes.
func (e *Emulator) Metadata(project, zone, name string) http.Handler {
	path := "projects/" + project + "/zones/" + zone + "/instances/" + name
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(flavor, google)
		w.Header().Set("Server", "Metadata Server for VM")
		tree := e.metadataOf(r.Context(), path)
		switch {
		case tree == nil:
			http.Error(w, "there is no instance "+path, http.StatusServiceUnavailable)
		case r.URL.Path == "/":
			fmt.Fprintln(w, "computeMetadata/") // it cannot be told that it went wrong
		case r.Header.Get(flavor) != google || r.Header.Get("X-Forwarded-For") != "":
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
		case r.Method != http.MethodGet:
			http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		case r.URL.Query().Get("wait_for_change") == "true":
			http.Error(w, "waiting for changes is not played", http.StatusBadRequest)
		default:
			answerMetadata(w, r, tree)
		}
	})
}

// answerMetadata answers what is at a path of the tree.
func answerMetadata(w http.ResponseWriter, r *http.Request, tree any) {
	rest, ok := strings.CutPrefix(r.URL.Path, metadataRoot)
	if !ok {
		http.NotFound(w, r)
		return
	}
	node := tree
	for _, part := range strings.FieldsFunc(rest, func(c rune) bool { return c == '/' }) {
		if node = within(node, part); node == nil {
			http.NotFound(w, r)
			return
		}
	}
	query := r.URL.Query()
	_, leaf := listing(node)
	if !leaf && !strings.HasSuffix(r.URL.Path, "/") {
		to := r.URL.Path + "/"
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		http.Redirect(w, r, to, http.StatusMovedPermanently)
		return
	}
	recursive := query.Get("recursive") == "true"
	if query.Get("alt") == "json" || recursive && query.Get("alt") != "text" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(tell(node)) // who asked has gone
		return
	}
	w.Header().Set("Content-Type", "application/text")
	if recursive {
		flatten(w, "", node)
		return
	}
	text, _ := listing(node)
	fmt.Fprint(w, text) // who asked has gone
}

// within is what a folder has under a name, or nil.
func within(node any, name string) any {
	switch x := node.(type) {
	case folder:
		return x[name]
	case bag:
		return x[name]
	case shelfs:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(x) {
			return x[i]
		}
	}
	return nil
}

// listing returns a node as a text, and whether it is a leaf.
func listing(node any) (text string, leaf bool) {
	var out strings.Builder
	entry := func(name string, sub any) {
		out.WriteString(name)
		if _, leaf := listing(sub); !leaf {
			out.WriteByte('/')
		}
		out.WriteByte('\n')
	}
	switch x := node.(type) {
	case bag:
		return listing(folder(x))
	case folder:
		for _, name := range sortedKeys(x) {
			if _, hidden := x[name].(secret); !hidden {
				entry(name, x[name])
			}
		}
		return out.String(), false
	case shelfs:
		for i, sub := range x {
			entry(strconv.Itoa(i), sub)
		}
		return out.String(), false
	case lines:
		for _, l := range x {
			out.WriteString(l + "\n")
		}
		return out.String(), true
	case json.RawMessage:
		return string(x), true
	}
	return fmt.Sprint(node), true
}

// secret is a text that is returned only to a request that names it.
type secret string

// tell returns a node as JSON. The names of its fields are without dashes, except in bags.
func tell(node any) any {
	out := map[string]any{}
	switch x := node.(type) {
	case bag:
		for name, sub := range x {
			out[name] = tell(sub)
		}
		return out
	case folder:
		for name, sub := range x {
			if _, hidden := sub.(secret); !hidden {
				out[camel(strings.ReplaceAll(name, "-", "_"))] = tell(sub)
			}
		}
		return out
	case shelfs:
		out := []any{}
		for _, sub := range x {
			out = append(out, tell(sub))
		}
		return out
	case lines:
		return append([]string{}, x...)
	}
	return node
}

// flatten tells all leaves of a node, each with its path.
func flatten(w http.ResponseWriter, path string, node any) {
	switch x := node.(type) {
	case bag:
		flatten(w, path, folder(x))
	case folder:
		for _, name := range sortedKeys(x) {
			if _, hidden := x[name].(secret); !hidden {
				flatten(w, strings.TrimPrefix(path+"/"+name, "/"), x[name])
			}
		}
	case shelfs:
		for i, sub := range x {
			flatten(w, strings.TrimPrefix(path+"/"+strconv.Itoa(i), "/"), sub)
		}
	case lines:
		for _, l := range x {
			fmt.Fprintf(w, "%s %s\n", path, l) // who asked has gone
		}
	default:
		fmt.Fprintf(w, "%s %v\n", path, node) // the same
	}
}

// metadataOf is the tree of an instance, or nil.
func (e *Emulator) metadataOf(ctx context.Context, path string) any {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pass(ctx)
	x := e.entries[path]
	if x == nil {
		return nil
	}
	p := e.projects[projectOf(path)]
	number, zone := strconv.FormatInt(p.number, 10), last(scopeOf(path), "/")
	name := text(x.o, "name")
	id, _ := strconv.ParseUint(text(x.o, "id"), 10, 64) // the emulator's own
	s := sub(x.o, "scheduling")
	truth := map[bool]string{true: "TRUE", false: "FALSE"}
	disks := shelfs{}
	for i, d := range subs(x.o, "disks") {
		disks = append(disks, folder{"device-name": d["deviceName"], "index": i, "interface": d["interface"], "mode": d["mode"], "type": d["type"]})
	}
	tags, _ := json.Marshal(append([]string{}, texts(sub(x.o, "tags"), "items")...)) // texts can be
	return folder{
		"instance": folder{
			"attributes": attributes(sub(x.o, "metadata")), "cpu-platform": x.o["cpuPlatform"], "description": text(x.o, "description"), "disks": disks,
			"hostname": name + "." + zone + ".c." + p.id + ".internal", "id": id, "image": e.imageOf(x), "name": name, "preempted": "FALSE", "maintenance-event": "NONE", "remaining-cpu-time": -1,
			"machine-type": "projects/" + number + "/machineTypes/" + last(text(x.o, "machineType"), "/"), "network-interfaces": e.interfacesOf(x, number),
			"scheduling":       folder{"automatic-restart": truth[flag(s, "automaticRestart")], "on-host-maintenance": s["onHostMaintenance"], "preemptible": truth[flag(s, "preemptible")]},
			"service-accounts": e.accountsOf(x, p), "tags": json.RawMessage(tags), "virtual-clock": folder{"drift-token": "0"}, "zone": "projects/" + number + "/zones/" + zone},
		"project": folder{"attributes": attributes(p.metadata), "numeric-project-id": p.number, "project-id": p.id},
	}
}

// imageOf is the path of the image of which the boot disk of an instance was made.
func (e *Emulator) imageOf(x *entry) string {
	for _, d := range subs(x.o, "disks") {
		if disk := e.entries[pathOf(text(d, "source"))]; disk != nil && flag(d, "boot") {
			return pathOf(text(disk.o, "sourceImage"))
		}
	}
	return ""
}

func attributes(metadata object) bag {
	out := bag{}
	for _, item := range subs(metadata, "items") {
		out[text(item, "key")] = text(item, "value")
	}
	return out
}

// mtu is of networks where nothing else is said, in bytes.
const mtu = 1460

func (e *Emulator) interfacesOf(x *entry, number string) shelfs {
	out := shelfs{}
	for _, nic := range subs(x.o, "networkInterfaces") {
		configs, aliases := shelfs{}, lines{}
		for _, a := range subs(nic, "accessConfigs") {
			configs = append(configs, folder{"external-ip": a["natIP"], "type": a["type"]})
		}
		for _, a := range subs(nic, "aliasIpRanges") {
			aliases = append(aliases, text(a, "ipCidrRange"))
		}
		ip, _ := netip.ParseAddr(text(nic, "networkIP")) // the emulator's own
		b := ip.As4()
		f := folder{"access-configs": configs, "dns-servers": lines{"169.254.169.254"}, "forwarded-ips": e.forwarded(x), "ip-aliases": aliases, "target-instance-ips": lines{},
			"ip": ip.String(), "mac": fmt.Sprintf("42:01:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]), "mtu": mtu, "subnetmask": "255.255.255.255", "network": "projects/" + number + "/networks/" + last(text(nic, "network"), "/")}
		if subnet := e.entries[pathOf(text(nic, "subnetwork"))]; subnet != nil {
			f["gateway"] = subnet.o["gatewayAddress"]
		}
		if n := e.entries[pathOf(text(nic, "network"))]; n != nil && n.o["mtu"] != nil {
			f["mtu"] = n.o["mtu"]
		}
		for _, six := range subs(nic, "ipv6AccessConfigs") {
			f["ipv6s"] = lines{text(six, "externalIpv6")}
		}
		if a := text(nic, "ipv6Address"); a != "" {
			f["ipv6s"] = lines{a}
		}
		out = append(out, f)
	}
	return out
}

// forwarded are the addresses of the load balancers that pass packets on to an instance as
// they are, so that the instance takes them for its own.
func (e *Emulator) forwarded(x *entry) lines {
	own := lines{}
	for _, r := range e.entries {
		if r.kind != e.kinds["forwardingRules"] {
			continue
		}
		target, service := e.entries[pathOf(text(r.o, "target"))], e.entries[pathOf(text(r.o, "backendService"))]
		if target != nil && slices.Contains(texts(target.o, "instances"), text(x.o, "selfLink")) ||
			service != nil && slices.ContainsFunc(subs(service.o, "backends"), func(b object) bool { return slices.Contains(e.membersOf(pathOf(text(b, "group"))), x) }) {
			own = append(own, text(r.o, "IPAddress"))
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// tokenLife is how long a token is good for, in seconds.
const tokenLife = 3599

func (e *Emulator) accountsOf(x *entry, p *project) bag {
	out := bag{}
	for _, a := range subs(x.o, "serviceAccounts") {
		email := text(a, "email")
		if email == "default" {
			email = fmt.Sprintf("%d-compute@developer.gserviceaccount.com", p.number)
		}
		token, _ := json.Marshal(object{"access_token": "ya29." + fingerprint(email, e.now.Unix()/tokenLife), "expires_in": tokenLife, "token_type": "Bearer"}) // these can be
		f := folder{"aliases": lines{"default"}, "email": email, "scopes": lines(texts(a, "scopes")), "token": secret(token)}
		out["default"], out[email] = f, f
	}
	return out
}
