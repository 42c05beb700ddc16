package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// The nodes of a metadata server's tree, apart from strings and numbers: folders with fixed names,
// folders with arbitrary names (openFolder), folders with indices (indexed), and lists with one item per
// line.
type (
	folder     map[string]any
	openFolder folder
	indexed    []any
	lines      []string
)

const (
	metadataRoot = "/computeMetadata/v1"
	flavor       = "Metadata-Flavor"
	google       = "Google"
)

// Metadata returns the metadata server of an instance, as described in
// https://cloud.google.com/compute/docs/metadata/querying-metadata. It returns the instance's
// current state, or 503 if the instance does not exist. It does not support waiting for changes.
func (e *Emulator) Metadata(project, zone, name string) http.Handler {
	path := "projects/" + project + "/zones/" + zone + "/instances/" + name
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(flavor, google)
		w.Header().Set("Server", "Metadata Server for VM")
		root := e.metadataOf(path)
		switch {
		case root == nil:
			http.Error(w, "there is no instance "+path, http.StatusServiceUnavailable)
		case r.URL.Path == "/":
			fmt.Fprintln(w, "computeMetadata/") // a failed write cannot be reported
		case r.Header.Get(flavor) != google || r.Header.Get("X-Forwarded-For") != "":
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
		case r.Method != http.MethodGet:
			http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
		case r.URL.Query().Get("wait_for_change") == "true":
			http.Error(w, "waiting for changes is not supported", http.StatusBadRequest)
		default:
			answerMetadata(w, r, root)
		}
	})
}

// answerMetadata returns the node at a path of the tree.
func answerMetadata(w http.ResponseWriter, r *http.Request, root any) {
	rest, ok := strings.CutPrefix(r.URL.Path, metadataRoot)
	if !ok {
		http.NotFound(w, r)
		return
	}
	node := root
	for _, part := range strings.FieldsFunc(rest, func(c rune) bool { return c == '/' }) {
		if node = childNode(node, part); node == nil {
			http.NotFound(w, r)
			return
		}
	}
	query := r.URL.Query()
	_, leaf := nodeText(node)
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
		_ = json.NewEncoder(w).Encode(nodeJSON(node)) // if it fails, the client is gone
		return
	}
	w.Header().Set("Content-Type", "application/text")
	if recursive {
		flatten(w, "", node)
		return
	}
	text, _ := nodeText(node)
	fmt.Fprint(w, text) // if it fails, the client is gone
}

// childNode returns the child of a folder with that name, or nil.
func childNode(node any, name string) any {
	switch x := node.(type) {
	case folder:
		return x[name]
	case openFolder:
		return x[name]
	case indexed:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(x) {
			return x[i]
		}
	}
	return nil
}

// nodeText returns a node as text, and whether it is a leaf.
func nodeText(node any) (text string, leaf bool) {
	var out strings.Builder
	entry := func(name string, sub any) {
		out.WriteString(name)
		if _, leaf := nodeText(sub); !leaf {
			out.WriteByte('/')
		}
		out.WriteByte('\n')
	}
	switch x := node.(type) {
	case openFolder:
		return nodeText(folder(x))
	case folder:
		for _, name := range sortedKeys(x) {
			if _, hidden := x[name].(secret); !hidden {
				entry(name, x[name])
			}
		}
		return out.String(), false
	case indexed:
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

// secret is text that is returned only to a request for exactly this node.
type secret string

// nodeJSON returns a node as JSON. Field names are converted to camel case, except in bags.
func nodeJSON(node any) any {
	out := map[string]any{}
	switch x := node.(type) {
	case openFolder:
		for name, sub := range x {
			out[name] = nodeJSON(sub)
		}
		return out
	case folder:
		for name, sub := range x {
			if _, hidden := sub.(secret); !hidden {
				out[camel(strings.ReplaceAll(name, "-", "_"))] = nodeJSON(sub)
			}
		}
		return out
	case indexed:
		out := []any{}
		for _, sub := range x {
			out = append(out, nodeJSON(sub))
		}
		return out
	case lines:
		return append([]string{}, x...)
	}
	return node
}

// flatten writes all leaves of a node, each with its path.
func flatten(w http.ResponseWriter, path string, node any) {
	switch x := node.(type) {
	case openFolder:
		flatten(w, path, folder(x))
	case folder:
		for _, name := range sortedKeys(x) {
			if _, hidden := x[name].(secret); !hidden {
				flatten(w, strings.TrimPrefix(path+"/"+name, "/"), x[name])
			}
		}
	case indexed:
		for i, sub := range x {
			flatten(w, strings.TrimPrefix(path+"/"+strconv.Itoa(i), "/"), sub)
		}
	case lines:
		for _, l := range x {
			fmt.Fprintf(w, "%s %s\n", path, l) // if it fails, the client is gone
		}
	default:
		fmt.Fprintf(w, "%s %v\n", path, node) // likewise
	}
}

// metadataOf returns the tree of an instance, or nil.
func (e *Emulator) metadataOf(path string) (root any) {
	e.Do(func() {
		if x := e.entries[path]; x != nil {
			root = e.metadata(path, x)
		}
	})
	return root
}

func (e *Emulator) metadata(path string, x *entry) folder {
	p := e.projects[projectOf(path)]
	number, zone := strconv.FormatInt(p.number, 10), lastPart(scopeOf(path), "/")
	name := tree.Text(x.o, "name")
	id, _ := strconv.ParseUint(tree.Text(x.o, "id"), 10, 64) // set by the emulator
	s := tree.Sub(x.o, "scheduling")
	truth := map[bool]string{true: "TRUE", false: "FALSE"}
	disks := indexed{}
	for i, d := range tree.Subs(x.o, "disks") {
		disks = append(disks, folder{"device-name": d["deviceName"], "index": i, "interface": d["interface"], "mode": d["mode"], "type": d["type"]})
	}
	tags, _ := json.Marshal(append([]string{}, tree.Texts(tree.Sub(x.o, "tags"), "items")...)) // strings can always be marshalled
	return folder{
		"instance": folder{
			"attributes": attributes(tree.Sub(x.o, "metadata")), "cpu-platform": x.o["cpuPlatform"], "description": tree.Text(x.o, "description"), "disks": disks,
			"hostname": name + "." + zone + ".c." + p.id + ".internal", "id": id, "image": e.imageOf(x), "name": name, "preempted": "FALSE", "maintenance-event": "NONE", "remaining-cpu-time": -1,
			"machine-type": "projects/" + number + "/machineTypes/" + lastPart(tree.Text(x.o, "machineType"), "/"), "network-interfaces": e.interfacesOf(x, number),
			"scheduling":       folder{"automatic-restart": truth[tree.Bool(s, "automaticRestart")], "on-host-maintenance": s["onHostMaintenance"], "preemptible": truth[tree.Bool(s, "preemptible")]},
			"service-accounts": e.accountsOf(x, p), "tags": json.RawMessage(tags), "virtual-clock": folder{"drift-token": "0"}, "zone": "projects/" + number + "/zones/" + zone},
		"project": folder{"attributes": attributes(p.metadata), "numeric-project-id": p.number, "project-id": p.id},
	}
}

// imageOf returns the path of the image from which an instance's boot disk was created.
func (e *Emulator) imageOf(x *entry) string {
	for _, d := range tree.Subs(x.o, "disks") {
		if disk := e.entries[pathOf(tree.Text(d, "source"))]; disk != nil && tree.Bool(d, "boot") {
			return pathOf(tree.Text(disk.o, "sourceImage"))
		}
	}
	return ""
}

func attributes(metadata object) openFolder {
	out := openFolder{}
	for _, item := range tree.Subs(metadata, "items") {
		out[tree.Text(item, "key")] = tree.Text(item, "value")
	}
	return out
}

// mtu is the default MTU of networks, in bytes.
const mtu = 1460

func (e *Emulator) interfacesOf(x *entry, number string) indexed {
	out := indexed{}
	for _, nic := range tree.Subs(x.o, "networkInterfaces") {
		configs, aliases := indexed{}, lines{}
		for _, a := range tree.Subs(nic, "accessConfigs") {
			configs = append(configs, folder{"external-ip": a["natIP"], "type": a["type"]})
		}
		for _, a := range tree.Subs(nic, "aliasIpRanges") {
			aliases = append(aliases, tree.Text(a, "ipCidrRange"))
		}
		ip, _ := netip.ParseAddr(tree.Text(nic, "networkIP")) // set by the emulator
		b := ip.As4()
		f := folder{"access-configs": configs, "dns-servers": lines{"169.254.169.254"}, "forwarded-ips": e.forwardedAddresses(x), "ip-aliases": aliases, "target-instance-ips": lines{},
			"ip": ip.String(), "mac": fmt.Sprintf("42:01:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]), "mtu": mtu, "subnetmask": "255.255.255.255", "network": "projects/" + number + "/networks/" + lastPart(tree.Text(nic, "network"), "/")}
		if subnet := e.entries[pathOf(tree.Text(nic, "subnetwork"))]; subnet != nil {
			f["gateway"] = subnet.o["gatewayAddress"]
		}
		if n := e.entries[pathOf(tree.Text(nic, "network"))]; n != nil && n.o["mtu"] != nil {
			f["mtu"] = n.o["mtu"]
		}
		for _, six := range tree.Subs(nic, "ipv6AccessConfigs") {
			f["ipv6s"] = lines{tree.Text(six, "externalIpv6")}
		}
		if a := tree.Text(nic, "ipv6Address"); a != "" {
			f["ipv6s"] = lines{a}
		}
		out = append(out, f)
	}
	return out
}

// forwardedAddresses returns the addresses of the load balancers that forward packets to an instance
// unchanged, so that the instance must accept them as its own.
func (e *Emulator) forwardedAddresses(x *entry) lines {
	own := lines{}
	for _, r := range e.entries {
		if r.kind != e.kinds["forwardingRules"] {
			continue
		}
		target, service := e.entries[pathOf(tree.Text(r.o, "target"))], e.entries[pathOf(tree.Text(r.o, "backendService"))]
		if target != nil && slices.Contains(tree.Texts(target.o, "instances"), tree.Text(x.o, "selfLink")) ||
			service != nil && slices.ContainsFunc(tree.Subs(service.o, "backends"), func(b object) bool { return slices.Contains(e.membersOf(pathOf(tree.Text(b, "group"))), x) }) {
			own = append(own, tree.Text(r.o, "IPAddress"))
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// tokenLife is how long a token is valid, in seconds.
const tokenLife = 3599

func (e *Emulator) accountsOf(x *entry, p *project) openFolder {
	out := openFolder{}
	for _, a := range tree.Subs(x.o, "serviceAccounts") {
		email := tree.Text(a, "email")
		if email == "default" {
			email = fmt.Sprintf("%d-compute@developer.gserviceaccount.com", p.number)
		}
		token, _ := json.Marshal(object{"access_token": "ya29." + fingerprint(email, e.Now().Unix()/tokenLife), "expires_in": tokenLife, "token_type": "Bearer"}) // these can always be marshalled
		f := folder{"aliases": lines{"default"}, "email": email, "scopes": lines(tree.Texts(a, "scopes")), "token": secret(token)}
		out["default"], out[email] = f, f
	}
	return out
}
