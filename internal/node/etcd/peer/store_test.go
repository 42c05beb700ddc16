package peer_test

import (
	"errors"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/storetest"
)

// sharing returns the store as seen by the manager at home, and by another one.
func sharing(t *testing.T, own store.Store) (home, other *peer.Shared) {
	t.Helper()
	a := authorities(t)
	home = peer.Share(own, peer.NewTLS(a, "a"), func() (string, bool, error) { return "", true, nil })
	at := serve(t, a, "a", &host{id: "a"}, home)
	other = peer.Share(own, peer.NewTLS(a, "b"), func() (string, bool, error) { return at, false, nil })
	t.Cleanup(other.Close)
	return home, other
}

func TestTheStoreOfAnotherManagerIsAStore(t *testing.T) {
	storetest.Run(t, storetest.Traits{Atomic: true}, func(t *testing.T) storetest.Clients {
		home, other := sharing(t, store.NewFolder(t.TempDir()))
		asked := 0
		return func() store.Store {
			if asked++; asked%2 == 0 {
				return home
			}
			return other
		}
	})
}

func TestOnlyTheHomeServes(t *testing.T) {
	a := authorities(t)
	away := peer.Share(store.NewFolder(t.TempDir()), peer.NewTLS(a, "a"), func() (string, bool, error) { return "c:1", false, nil })
	at := serve(t, a, "a", &host{id: "a"}, away)
	mistaken := peer.Share(store.NewFolder(t.TempDir()), peer.NewTLS(a, "b"), func() (string, bool, error) { return at, false, nil })
	if _, err := mistaken.Put(t.Context(), "k", nil, store.PutOptions{}); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "the store is at c:1") {
		t.Errorf("got %v", err)
	}
	stranger := peer.Share(store.NewFolder(t.TempDir()), peer.NewTLS(authorities(t), "b"), func() (string, bool, error) { return at, false, nil })
	if _, _, err := stranger.Get(t.Context(), "k"); !fault.Is(err, fault.Lost) {
		t.Errorf("a stranger: %v", err)
	}
	nowhere := peer.Share(store.NewFolder(t.TempDir()), peer.NewTLS(a, "b"), func() (string, bool, error) { return "", false, errors.New("unknown") })
	if _, _, err := nowhere.Get(t.Context(), "k"); err == nil {
		t.Error("a store without a home answers")
	}
}
