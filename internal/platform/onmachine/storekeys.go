package onmachine

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/open"
)

// keysPeriod is how long keys are used before they are read again, and so how long old keys may
// stay in use after a change.
const keysPeriod = 5 * time.Minute

// storeKeys returns the keys of the server of the cluster's store, from the place that the environment
// names; nil if it names none.
func storeKeys(all []Platform, w World) open.Account {
	at := w.Env(storekeys.Variable)
	if at == "" {
		return nil
	}
	return open.RefreshingAccount(keysPeriod, func(ctx context.Context) (id, secret, token string, err error) {
		place, err := storekeys.ParsePlace(at)
		if err != nil {
			return "", "", "", fault.Wrap(fault.Permanent, err, "run kops update cluster --yes to write the environment again")
		}
		p, ok := Find(all, place.Platform)
		if !ok || p.Keys == nil {
			return "", "", "", fault.New(fault.Permanent, "%s is %s, but this program cannot find keys of %s", storekeys.Variable, at, place.Platform)
		}
		c, err := p.Keys(ctx, w, place.Name)
		if err != nil {
			return "", "", "", fmt.Errorf("find the keys of %s: %w", w.Env(storekeys.Endpoint), err)
		}
		return c.ID, c.Secret, c.Token, nil
	})
}
