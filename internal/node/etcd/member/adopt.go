package member

import (
	"fmt"
	"slices"

	"kops.local/kops/internal/engine/fault"
)

// adopt takes over the data that kOps' manager has left: the member goes on as who
// it is. What does not fit is refused, and nothing on the disk is changed.
func (m *Member) adopt(k kept, theirs []node) (kept, error) {
	if k.Token == "" {
		token, err := m.data.anyBegun()
		if err == nil && token != "" {
			err = fault.Wrap(fault.Permanent, fmt.Errorf("%s holds data of cluster %s, but %s does not mention it", m.cfg.Dir, token, m.data.state()),
				"nothing on the disk was changed; bring the file back, or if the data are not needed, remove them: then the member gets those of the others, or of a backup")
		}
		return k, err
	}
	i := slices.IndexFunc(theirs, func(n node) bool { return n.name == m.cfg.ID })
	if i < 0 {
		var names []string
		for _, n := range theirs {
			names = append(names, n.name)
		}
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("the disk %s is of a member of cluster %s, which knows %q and not %s", m.cfg.Dir, k.Token, names, m.cfg.ID),
			"attach the disk to the machine of its member, or name the member with --peer-id")
	}
	// Where TLS was turned on later, or off altogether, the flag and the URLs may differ.
	tls := secure(m.cfg.PeerURLs)
	if n := theirs[i]; tls && !n.tls || !tls && n.tls && secure(n.peerURLs) {
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("the members of cluster %s reach each other with %s, and %s is to do so with %s", k.Token, protocol(theirs[i].tls), m.cfg.ID, protocol(tls)),
			"nothing on the disk was changed; have --peer-urls begin with "+protocol(theirs[i].tls)+", or let kOps' etcd-manager bring all members to "+protocol(tls)+" first")
	}
	k.Started = true
	if m.data.lost(k) {
		return k, nil
	}
	seat, err := memberOf(m.data.data(k.Token))
	if err != nil {
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("whose data are in %s is not known: %w", m.data.data(k.Token), err),
			"nothing on the disk was changed; if it is damaged, and not needed, empty it: then the member gets the data of the others, or of a backup")
	}
	k.Seat = seat
	m.cfg.Log.Info("the data that kOps' etcd-manager has left are taken over", "token", k.Token, "seat", k.Seat, "version", k.Version)
	return k, nil
}

func protocol(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}
