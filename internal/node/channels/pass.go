package channels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/pki"
)

// Clock provides the applier's time.
type Clock interface {
	Now() time.Time
	// Sleep waits for a duration, or returns the context's error if it ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Applier applies add-ons to a cluster.
type Applier struct {
	Client dynamic.Interface
	Mapper meta.ResettableRESTMapper
	Fetch  Fetch
	// Issuer creates the authorities of add-ons that need one.
	Issuer pki.Issuer
	Clock  Clock
	Log    *slog.Logger
	// Settle is how long a pass waits until what it applied runs.
	Settle time.Duration
}

// State describes what a pass has to do with an add-on.
type State struct {
	Addon Addon
	// Recorded is the record in the cluster; nil if there is none.
	Recorded *Record
	// Outdated is set if the add-on must be applied.
	Outdated bool
	// Dropped is set if the add-on must be removed: its channel no longer lists it.
	Dropped bool
}

// pending is an add-on that has been applied and whose version is not recorded yet.
type pending struct {
	state   State
	objects []*unstructured.Unstructured
}

// Compare reads channels and reports for each add-on whether it must be applied or, if all
// channels could be read, removed. If some cannot be read, it returns the rest together with an
// error.
func (a *Applier) Compare(ctx context.Context, urls []string) ([]State, error) {
	records, err := a.records(ctx)
	if err != nil {
		return nil, err
	}
	var out []State
	var errs []error
	channels := map[string][]Addon{}
	for _, u := range urls {
		all, err := Load(ctx, a.Fetch, u)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		channels[placeOf(u)] = all
		for _, addon := range all {
			s, err := a.compare(ctx, addon, records[key{addon.namespace(), addon.Name}])
			if err != nil {
				errs = append(errs, fmt.Errorf("add-on %s: %w", addon.Name, err))
				continue
			}
			out = append(out, s)
		}
	}
	if len(errs) > 0 {
		return out, errors.Join(errs...)
	}
	gone, err := droppedAddons(channels, records)
	return append(out, gone...), err
}

// placeOf returns the URL of a channel without its digest, which differs for each version.
func placeOf(url string) string {
	url, _, _ = strings.Cut(url, api.ManifestDigest)
	return url
}

func (a *Applier) compare(ctx context.Context, addon Addon, recorded *Record) (State, error) {
	s := State{Addon: addon, Recorded: recorded, Outdated: recorded == nil || addon.version().supersedes(recorded.Version)}
	if !s.Outdated {
		keypair, err := a.hasKeypair(ctx, addon)
		if err != nil {
			return State{}, err
		}
		s.Outdated = !keypair
	}
	return s, nil
}

// Pass applies every outdated add-on of the channels, waits until they run, and
// records the version of those that do. If an add-on fails, the others are still
// applied, but dropped add-ons are not removed: the failed one may be meant to
// take over their objects.
func (a *Applier) Pass(ctx context.Context, urls []string) error {
	states, err := a.Compare(ctx, urls)
	var errs []error
	failed := func(s State, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("add-on %s: %w", s.Addon.Name, err))
		}
	}
	var applied []pending
	for _, s := range states {
		switch {
		case s.Outdated:
			p, err := a.apply(ctx, s)
			if failed(s, err); err == nil {
				applied = append(applied, p)
			}
		case s.isFromOtherChannel(urls):
			failed(s, a.record(ctx, s.Addon, Record{Version: s.Addon.version(), Objects: s.Recorded.Objects, Nodes: s.Recorded.Nodes}))
		}
	}
	if err == nil && len(errs) == 0 {
		for _, s := range states {
			if s.Dropped {
				failed(s, a.drop(ctx, s))
			}
		}
	}
	return errors.Join(append(errs, err, a.awaitReady(ctx, applied))...)
}

// apply applies the objects of an add-on and removes those that it no longer contains.
func (a *Applier) apply(ctx context.Context, s State) (pending, error) {
	p := pending{state: s}
	text, err := s.Addon.manifestText(ctx, a.Fetch)
	if err != nil {
		return p, err
	}
	if p.objects, err = decode(text); err != nil {
		return p, fmt.Errorf("read the manifest: %w", err)
	}
	a.Log.Info("applying", "addon", s.Addon.Name, "id", s.Addon.ID, "objects", len(p.objects))
	label(s.Addon.Name, p.objects)
	if err := a.announce(ctx, p); err != nil {
		return p, err
	}
	keypair := a.ensureKeypair(ctx, s.Addon)
	failed := a.applySet(ctx, p.objects)
	if err := a.prune(ctx, s.Addon, p.objects); err != nil {
		return p, errors.Join(keypair, failed, err)
	}
	if failed != nil && s.Addon.Prune != nil { // what was removed may have been in the way
		failed = a.applySet(ctx, p.objects)
	}
	return p, errors.Join(keypair, failed)
}

// awaitReady waits until applied add-ons run, and records those that do.
func (a *Applier) awaitReady(ctx context.Context, applied []pending) error {
	end := a.Clock.Now().Add(a.Settle)
	for {
		var errs []error
		applied = slices.DeleteFunc(applied, func(p pending) bool {
			err := a.finish(ctx, p)
			if err != nil {
				errs = append(errs, fmt.Errorf("add-on %s: %w", p.state.Addon.Name, err))
			}
			return err == nil
		})
		if len(applied) == 0 || !a.Clock.Now().Before(end) {
			return errors.Join(errs...)
		}
		if err := a.Clock.Sleep(ctx, time.Second); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
}

// finish records the version of an add-on that runs, and marks the nodes that must
// be replaced because of it.
func (a *Applier) finish(ctx context.Context, p pending) error {
	if err := a.checkSet(ctx, p.objects); err != nil {
		return err
	}
	addon, before := p.state.Addon, p.state.Recorded
	concerns, err := nodesDigest(p.objects)
	if err != nil {
		return err
	}
	if addon.NeedsRollingUpdate != "" && before != nil && before.isComplete() && before.Nodes != concerns {
		if err := a.markNodes(ctx, addon.NeedsRollingUpdate); err != nil {
			return fmt.Errorf("mark nodes for replacement: %w", err)
		}
	}
	objects, err := a.inventory(ctx, p)
	if err != nil {
		return err
	}
	if err := a.record(ctx, addon, Record{Version: addon.version(), Objects: objects, Nodes: concerns}); err != nil {
		return err
	}
	a.Log.Info("applied", "addon", addon.Name, "id", addon.ID, "hash", addon.ManifestHash)
	return nil
}

// nodesDigest returns a digest of objects without the keys that are reread at runtime (labels.LiveKeys).
func nodesDigest(objects []*unstructured.Unstructured) (string, error) {
	sum := sha256.New()
	for _, o := range objects {
		o = &unstructured.Unstructured{Object: labels.WithoutLiveKeys(o.Object)}
		text, err := o.MarshalJSON()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// markNodes marks the nodes of a role for replacement.
func (a *Applier) markNodes(ctx context.Context, which string) error {
	selector := map[string]string{labels.RollControlPlane: labels.ControlPlane, labels.RollWorkers: labels.Node, labels.RollAll: ""}[which]
	list, err := a.Client.Resource(nodes()).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		if err := a.annotate(ctx, nodes(), n.GetName(), labels.NeedsUpdate, ""); err != nil {
			return err
		}
	}
	return nil
}

// ParseLabels parses labels such as a=b,c. The control-plane label implies the other labels
// without which kops-controller, which sets all others, is not scheduled.
func ParseLabels(text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		if key == "" {
			return nil, fmt.Errorf("label %q has no name", part)
		}
		out[key] = value
		if key == labels.ControlPlane {
			out[labels.Controller], out[labels.NoLoadBalancer] = "", ""
		}
	}
	return out, nil
}

// LabelNode sets labels on a node; it makes no change if the node already has them.
func (a *Applier) LabelNode(ctx context.Context, name string, labels map[string]string) error {
	n, err := a.Client.Resource(nodes()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("label the node %s: %w", name, err)
	}
	missing := map[string]any{}
	for k, v := range labels {
		if now, ok := n.GetLabels()[k]; !ok || now != v {
			missing[k] = v
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := a.mergeMetadata(ctx, nodes(), name, "labels", missing); err != nil {
		return fmt.Errorf("label the node %s: %w", name, err)
	}
	return nil
}
