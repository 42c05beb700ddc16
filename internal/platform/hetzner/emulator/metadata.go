package emulator

import (
	"fmt"
	"net/http"
	"strings"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

const metadataRoot = "/hetzner/v1/"

// Metadata returns the metadata service of a server, as it is at 169.254.169.254. It returns the server's
// current state, or 503 if the server does not exist.
func (e *Emulator) Metadata(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var values map[string]string
		e.Do(func() {
			if s := e.store.Find("servers", "name", name); s != nil {
				values = e.metadata(s)
			}
		})
		key := strings.TrimPrefix(r.URL.Path, metadataRoot)
		text, known := values[key]
		switch {
		case values == nil:
			http.Error(w, "there is no server "+name, http.StatusServiceUnavailable)
		case r.Method != http.MethodGet:
			http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
		case key == r.URL.Path || !known:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, text) // if it fails, the client is gone
		}
	})
}

// metadata returns the values by key.
func (e *Emulator) metadata(s *standin.Entry) map[string]string {
	m := e.machineOf(s)
	center := tree.Text(tree.Sub(s.Object, "datacenter"), "name")
	zone := tree.Text(tree.Sub(s.Object, "location"), "network_zone")
	public := ""
	if m.Public.IsValid() {
		public = m.Public.String()
	}
	var private strings.Builder
	for i, n := range m.Networks {
		network := e.store.Get("networks", n.Network)
		b := n.Address.As4()
		fmt.Fprintf(&private, "- ip: %s\n  alias_ips: []\n  interface_num: %d\n  mac_address: 86:00:%02x:%02x:%02x:%02x\n  network_id: %d\n  network_name: %s\n  network: %s\n  subnet: %s\n  gateway: %s\n",
			n.Address, i+1, b[0], b[1], b[2], b[3], n.Network, tree.Text(network.Object, "name"), n.Range, n.Subnet, n.Gateway)
	}
	return map[string]string{
		"metadata/hostname": m.Name, "metadata/instance-id": fmt.Sprint(m.ID), "metadata/public-ipv4": public, "metadata/region": zone, "metadata/availability-zone": center,
		"metadata/private-networks": private.String(), "metadata/local-ipv4": "", "userdata": m.UserData,
		"metadata": fmt.Sprintf("availability-zone: %s\nhostname: %s\ninstance-id: %d\npublic-ipv4: %s\nregion: %s\n", center, m.Name, m.ID, public, zone),
	}
}
