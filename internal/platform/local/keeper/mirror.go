package keeper

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// mirror identifies one port of one mirror.
type mirror struct {
	Mirror
	address string
}

// reconcileMirrors opens and closes the ports on which bundles are served.
func (k *keeper) reconcileMirrors(cidr netip.Prefix) error {
	list, err := Mirrors(k.host.Site)
	if err != nil {
		return err
	}
	var wanted []mirror
	for _, m := range list {
		wanted = append(wanted, mirror{m, net.JoinHostPort(network.Gateway(cidr).Addr().String(), strconv.Itoa(m.Port))})
	}
	for m, s := range maps.Clone(k.mirrors) {
		if !slices.Contains(wanted, m) {
			s.Close() // machines retry
			delete(k.mirrors, m)
		}
	}
	for _, m := range wanted {
		var trouble error
		if k.mirrors[m] == nil {
			s, serr := k.serveMirror(m)
			if serr == nil {
				k.mirrors[m] = s
			} else {
				trouble = fmt.Errorf("mirror %s: %w", m.Name, serr)
			}
		}
		err = errors.Join(err, trouble, writeTrouble(k.host.Site, site.Mirrors, m.Name, trouble))
	}
	return err
}

func (k *keeper) serveMirror(m mirror) (*http.Server, error) {
	b, err := bundle.Open(m.Bundle)
	if err != nil {
		return nil, err
	}
	handler, err := b.Handler()
	if err != nil {
		return nil, err
	}
	l, err := listen(m.address)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			k.log.Error("serve a mirror", "mirror", m.Name, "error", err)
		}
	}()
	return s, nil
}
