package member

import (
	"fmt"
	"slices"

	"kops.local/kops/internal/engine/fault"
)

// adopt takes over the data that kOps' manager has left: the member continues
// under its old identity. If something does not match, it returns an error, and
// changes nothing on the disk.
func (m *Member) adopt(k storedState, theirs []node) (storedState, error) {
	if k.Token == "" {
		token, err := m.data.tokenWithData()
		if err == nil && token != "" {
			err = fault.Wrap(fault.Permanent, fmt.Errorf("%s holds data of cluster %s, but %s does not mention it", m.cfg.Dir, token, m.data.state()),
				"nothing on the disk was changed; restore the file, or if the data are not needed, remove them: then the member gets the data of the others, or of a backup")
		}
		return k, err
	}
	i := slices.IndexFunc(theirs, func(n node) bool { return n.name == m.cfg.ID })
	if i < 0 {
		var names []string
		for _, n := range theirs {
			names = append(names, n.name)
		}
		return storedState{}, fault.Wrap(fault.Permanent, fmt.Errorf("the disk %s belongs to a member of cluster %s, which knows %q but not %s", m.cfg.Dir, k.Token, names, m.cfg.ID),
			"attach the disk to the machine of its member, or name the member with --peer-id")
	}
	// If TLS was enabled later, or disabled altogether, the flag and the URLs may differ.
	tls := secure(m.cfg.PeerURLs)
	if n := theirs[i]; tls && !n.tls || !tls && n.tls && secure(n.peerURLs) {
		return storedState{}, fault.Wrap(fault.Permanent, fmt.Errorf("the members of cluster %s reach each other with %s, but %s uses %s", k.Token, protocol(theirs[i].tls), m.cfg.ID, protocol(tls)),
			"nothing on the disk was changed; have --peer-urls begin with "+protocol(theirs[i].tls)+", or let kOps' etcd-manager first bring all members to "+protocol(tls))
	}
	k.Started = true
	if m.data.isLost(k) {
		return k, nil
	}
	seat, err := memberOf(m.data.data(k.Token))
	if err != nil {
		return storedState{}, fault.Wrap(fault.Permanent, fmt.Errorf("cannot tell whose data are in %s: %w", m.data.data(k.Token), err),
			"nothing on the disk was changed; if it is damaged, and not needed, empty it: then the member gets the data of the others, or of a backup")
	}
	k.Seat = seat
	m.cfg.Log.Info("taking over the data of kOps' etcd-manager", "token", k.Token, "seat", k.Seat, "version", k.Version)
	return k, nil
}

func protocol(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}
