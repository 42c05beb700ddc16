package member

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
)

// check rejects what cannot be passed to etcd.
func (c Config) check() error {
	for _, urls := range [][]string{c.PeerURLs, c.ClientURLs, c.QuarantineURLs} {
		if len(urls) == 0 {
			return fault.New(fault.Permanent, "etcd needs URLs for its peers, for clients, and for the time of quarantine")
		}
		for _, s := range urls {
			u, err := url.Parse(s)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" {
				return fault.New(fault.Permanent, "%q is not a URL for etcd; use the form https://host:2380", s)
			}
		}
		if secure(urls) && c.Authorities == nil {
			return fault.New(fault.Permanent, "etcd cannot serve %s without certificate authorities", urls[0])
		}
	}
	return nil
}

// environment returns the environment with which etcd is started. etcd gets no flags.
func (c Config) environment(k storedState, f folder) []string {
	clients := c.ClientURLs
	if k.Quarantined {
		clients = c.QuarantineURLs
	}
	state := "existing"
	if k.Seat == etcd.FounderSeat {
		state = "new"
	}
	env := map[string]string{
		"ETCD_NAME":                        c.ID,
		"ETCD_DATA_DIR":                    f.data(k.Token),
		"ETCD_INITIAL_CLUSTER":             initialCluster(k.Initial),
		"ETCD_INITIAL_CLUSTER_TOKEN":       k.Token,
		"ETCD_INITIAL_CLUSTER_STATE":       state,
		"ETCD_INITIAL_ADVERTISE_PEER_URLS": strings.Join(c.PeerURLs, ","),
		"ETCD_ADVERTISE_CLIENT_URLS":       strings.Join(clients, ","),
		"ETCD_LISTEN_PEER_URLS":            listen(c.PeerURLs, c.Listen),
		"ETCD_LISTEN_CLIENT_URLS":          listen(clients, c.Listen),
		// Before clients are let in, a mistake loses nothing, and managers need not wait 5
		// seconds until etcd considers the previous member healthy.
		"ETCD_STRICT_RECONFIG_CHECK": strconv.FormatBool(!k.Quarantined),
		"ETCD_LOGGER":                "zap",
		"ETCD_LOG_OUTPUTS":           "stdout",
	}
	if strings.HasPrefix(k.Version, "3.5.") {
		env["ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK"] = "true"
	}
	if secure(c.PeerURLs) {
		dir := f.pki(k.Token, "peers")
		env["ETCD_PEER_CLIENT_CERT_AUTH"] = "true"
		env["ETCD_PEER_TRUSTED_CA_FILE"] = dir + "/ca.crt"
		env["ETCD_PEER_CERT_FILE"], env["ETCD_PEER_KEY_FILE"] = dir+"/me.crt", dir+"/me.key"
	}
	if secure(clients) {
		dir := f.pki(k.Token, "clients")
		env["ETCD_CLIENT_CERT_AUTH"] = "true"
		env["ETCD_TRUSTED_CA_FILE"] = dir + "/ca.crt"
		env["ETCD_CERT_FILE"], env["ETCD_KEY_FILE"] = dir+"/server.crt", dir+"/server.key"
	}
	for _, v := range c.Environment {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// writeCertificates issues the certificates that etcd uses for its peers and its
// clients, if due reports that they are due.
func (m *Member) writeCertificates(token string, due func(dir, file string) bool) error {
	c := m.cfg
	local := []string{"127.0.0.1", "::1"}
	if dir := m.data.pki(token, "peers"); secure(c.PeerURLs) && due(dir, "me") {
		names := append([]string{c.ID, c.Address}, append(hosts(c.PeerURLs), local...)...)
		err := c.Authorities.WritePair(dir, "me", c.Authorities.Peers, pki.ClientServer, c.ID, unique(names)...)
		if err != nil {
			return fmt.Errorf("issue etcd's certificate for its peers: %w", err)
		}
	}
	if dir := m.data.pki(token, "clients"); (secure(c.ClientURLs) || secure(c.QuarantineURLs)) && due(dir, "server") {
		names := append([]string{c.ID, c.Address}, append(append(hosts(c.ClientURLs), hosts(c.PeerURLs)...), local...)...)
		err := c.Authorities.WritePair(dir, "server", c.Authorities.Clients, pki.ClientServer, c.ID, unique(names)...)
		if err != nil {
			return fmt.Errorf("issue etcd's certificate for its clients: %w", err)
		}
	}
	return nil
}

// secure reports whether any of the URLs uses TLS.
func secure(urls []string) bool {
	return slices.ContainsFunc(urls, func(u string) bool { return strings.HasPrefix(u, "https:") })
}

// listen returns the URLs with another host.
func listen(urls []string, host string) string {
	var out []string
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			continue // check has rejected it
		}
		u.Host = net.JoinHostPort(host, u.Port())
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}

func hosts(urls []string) []string {
	var out []string
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil { // check has rejected others
			out = append(out, u.Hostname())
		}
	}
	return out
}

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// initialCluster returns name=url,name=url.
func initialCluster(nodes []etcd.Node) string {
	var out []string
	for _, n := range nodes {
		for _, u := range n.URLs {
			out = append(out, n.Name+"="+u)
		}
	}
	return strings.Join(out, ",")
}
