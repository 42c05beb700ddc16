package kops

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/store/clusterstore"
)

// planFormat is the number of the format of saved plans.
const planFormat = 1

// SavedPlan is a plan in the form of a file: the steps that change something, and for
// which cluster, when, by whom and with which options it was made. It contains no key.
type SavedPlan struct {
	Format  int       `json:"format"`
	Cluster string    `json:"cluster"`
	Time    time.Time `json:"time"`
	// Version is the version of the program that made the plan.
	Version string    `json:"version"`
	Part    PlanPart  `json:"options"`
	Summary PlanCount `json:"summary"`
	// Steps are in the order in which they are applied; Deferred are deletions
	// that they do not include, for lack of --prune.
	Steps    []SavedStep `json:"steps"`
	Deferred []SavedStep `json:"deferred"`
	// Risks are consequences that should be reviewed before the plan is applied.
	Risks finding.List `json:"risks,omitempty"`
	// Digest is the SHA-256 of everything else, in hexadecimal.
	Digest string `json:"digest"`
}

// PlanPart is the part of a cluster that a plan covers, and whether it prunes.
type PlanPart struct {
	Prune      bool              `json:"prune,omitempty"`
	Phase      string            `json:"phase,omitempty"`
	Groups     []string          `json:"instanceGroups,omitempty"`
	Roles      []string          `json:"instanceGroupRoles,omitempty"`
	Lifecycles map[string]string `json:"lifecycleOverrides,omitempty"`
	// What was allowed when the plan was made is allowed when it is applied.
	AllowUnverified bool `json:"allowUnverified,omitempty"`
	AllowDowngrade  bool `json:"allowDowngrade,omitempty"`
	IgnoreSkew      bool `json:"ignoreKubeletVersionSkew,omitempty"`
}

// selectedPart returns the part of a cluster that the options of an update select.
func selectedPart(o UpdateOptions) PlanPart {
	return PlanPart{Prune: o.Prune, Phase: o.Phase, Groups: o.Groups, Roles: o.Roles, Lifecycles: o.Lifecycles,
		AllowUnverified: o.AllowUnverified, AllowDowngrade: o.AllowDowngrade, IgnoreSkew: o.IgnoreSkew}
}

// asPlanned gives an update the options of the saved plan that it applies. An option
// that is also given is kept, and the plan is refused if it was made with another value.
func (o UpdateOptions) asPlanned() UpdateOptions {
	if o.Plan == nil {
		return o
	}
	p := o.Plan.Part
	o.Prune, o.Phase = o.Prune || p.Prune, cmp.Or(o.Phase, p.Phase)
	if len(o.Groups) == 0 {
		o.Groups = p.Groups
	}
	if len(o.Roles) == 0 {
		o.Roles = p.Roles
	}
	if len(o.Lifecycles) == 0 {
		o.Lifecycles = p.Lifecycles
	}
	o.AllowUnverified, o.AllowDowngrade, o.IgnoreSkew = o.AllowUnverified || p.AllowUnverified, o.AllowDowngrade || p.AllowDowngrade, o.IgnoreSkew || p.IgnoreSkew
	return o
}

// limits returns a part without the options that only allow something: they do not affect the comparison of plans.
func (p PlanPart) limits() PlanPart {
	p.AllowUnverified, p.AllowDowngrade, p.IgnoreSkew = false, false, false
	return p
}

// SavedStep is a step in the shape of its JSON.
type SavedStep map[string]any

// Saved returns the plan of an update in the form of a file.
func (u *Update) Saved() (*SavedPlan, error) {
	if u.model == nil || u.Plan == nil {
		return nil, errNoUpdate
	}
	w, o := u.model.World, u.options
	s := &SavedPlan{Format: planFormat, Cluster: u.model.Cluster.Spec.Name, Time: w.Now().UTC().Truncate(time.Second), Version: w.Version,
		Part:    selectedPart(o),
		Summary: u.Plan.Count(), Risks: u.Risks}
	var err error
	doing := slices.DeleteFunc(slices.Clone(u.Plan.plan.Steps), func(st plan.Step) bool { return st.Op == plan.Keep })
	if s.Steps, err = savedSteps(doing); err != nil {
		return nil, err
	}
	if s.Deferred, err = savedSteps(u.Plan.plan.Deferred); err != nil {
		return nil, err
	}
	if s.Digest, err = s.digest(); err != nil {
		return nil, err
	}
	data, err := s.Marshal()
	if err != nil {
		return nil, err
	}
	return ReadPlan(data) // in the form in which it will be read
}

func savedSteps(steps []plan.Step) ([]SavedStep, error) {
	out := []SavedStep{}
	for _, st := range steps {
		st.After = nil // it refers to steps that are omitted
		data, err := json.Marshal(st)
		if err != nil {
			return nil, fmt.Errorf("save the plan: %w", err)
		}
		var step SavedStep
		if err := decode(data, &step); err != nil {
			return nil, fmt.Errorf("save the plan: %w", err)
		}
		if d := text.Differences(st); len(d) > 0 {
			step["differences"] = d
		}
		out = append(out, step)
	}
	return out, nil
}

// decode decodes JSON without losing digits of numbers.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is data after its end")
	}
	return nil
}

// digest returns the digest of everything except itself, regardless of indentation.
func (s SavedPlan) digest() (string, error) {
	s.Digest = ""
	data, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("digest of the plan: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// Marshal returns the text of the file.
func (s *SavedPlan) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("save the plan: %w", err)
	}
	return b.Bytes(), nil
}

// ReadPlan reads a saved plan. A modified one is refused.
func ReadPlan(data []byte) (*SavedPlan, error) {
	var head struct {
		Format int
		Kind   string
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Format == 0 {
		return nil, errors.New("it is not a saved plan; make one with option:KeepKeys")
	}
	if head.Kind != "" {
		return nil, fmt.Errorf("it is a %s, not a saved plan; make one with option:KeepKeys", head.Kind)
	}
	if head.Format != planFormat {
		return nil, fmt.Errorf("it has format %d, but this version of kops reads format %d; make a new plan with this version", head.Format, planFormat)
	}
	s := &SavedPlan{}
	if err := decode(data, s); err != nil {
		return nil, fmt.Errorf("it was changed after it was saved: %w; make a new plan", err)
	}
	digest, err := s.digest()
	if err != nil {
		return nil, err
	}
	if digest != s.Digest {
		return nil, &Refused{fault.New(fault.Permanent, "it was changed after it was saved: its digest is %q, and its content has %q; make a new plan", s.Digest, digest)}
	}
	return s, nil
}

// maxDifferences is the maximum number of reported differences between two plans.
const maxDifferences = 10

// check refuses the current plan if it differs from the saved one, and reports
// the differences.
func (s *SavedPlan) check(now *SavedPlan) error {
	if s.Cluster != now.Cluster {
		return &Refused{fault.New(fault.Conflict, "the saved plan is for cluster %q, not for %q", s.Cluster, now.Cluster)}
	}
	was, is := flat(s.Part.limits()), flat(now.Part.limits())
	if d := differing(was, is); len(d) > 0 {
		return &Refused{fault.New(fault.Conflict, "the plan was saved with other options: %s; use the same options, or make a new plan", strings.Join(d, "; "))}
	}
	moved := slices.Concat(stepDifferences("", s.Steps, now.Steps), stepDifferences("with option:Prune: ", s.Deferred, now.Deferred))
	if len(moved) == 0 {
		return nil
	}
	if n := len(moved) - maxDifferences; n > 0 {
		moved = append(moved[:maxDifferences], fmt.Sprintf("and %d more", n))
	}
	what := "the cloud or the objects"
	if s.Version != now.Version {
		what = fmt.Sprintf("the cloud, the objects or the version of kops (%s then, %s now)", s.Version, now.Version)
	}
	return &Refused{fault.New(fault.Conflict, "the plan saved at %s was not carried out, because %s have changed since:\n  %s\nsave a new plan, and have it reviewed",
		s.Time.Format(time.RFC3339), what, strings.Join(moved, "\n  "))}
}

// stepDifferences returns the differences between two lists of steps.
func stepDifferences(prefix string, was, is []SavedStep) []string {
	old, now := stepsByName(was), stepsByName(is)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(old)) {
		if now[k] == nil {
			out = append(out, prefix+k+" is no longer needed")
			continue
		}
		for _, d := range differing(flat(old[k]), flat(now[k])) {
			out = append(out, prefix+k+": "+d)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if old[k] == nil {
			out = append(out, prefix+k+" is also needed now")
		}
	}
	return out
}

// stepsByName returns steps by what they do; duplicates are numbered.
func stepsByName(steps []SavedStep) map[string]SavedStep {
	out := map[string]SavedStep{}
	for _, s := range steps {
		a, _ := s["address"].(map[string]any)
		name := fmt.Sprintf("%v %v/%v", s["op"], a["kind"], a["name"])
		for n := 2; out[name] != nil; n++ {
			name = fmt.Sprintf("%v %v/%v (%d)", s["op"], a["kind"], a["name"], n)
		}
		out[name] = s
	}
	return out
}

// flat returns the values of a JSON document by path.
func flat(doc any) map[string]string {
	out := map[string]string{}
	data, err := json.Marshal(doc)
	if err != nil {
		return out
	}
	var v any
	if json.Unmarshal(data, &v) == nil {
		flatten("", reflect.ValueOf(v), out)
	}
	return out
}

func flatten(path string, v reflect.Value, out map[string]string) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Map:
		for _, k := range v.MapKeys() {
			flatten(strings.TrimPrefix(path+"."+k.String(), "."), v.MapIndex(k), out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			flatten(fmt.Sprintf("%s[%d]", path, i), v.Index(i), out)
		}
	case reflect.Invalid:
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// differing returns the values that differ: `want.Count was "3", and is "4"`. Changes are
// omitted, because they follow from the existing and the desired state.
func differing(was, is map[string]string) []string {
	var out []string
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, k := range slices.Sorted(maps.Keys(both)) {
		if was[k] != is[k] && !strings.HasPrefix(k, "changes[") && !strings.HasPrefix(k, "differences.") {
			out = append(out, fmt.Sprintf("%s was %q, and is %q", k, was[k], is[k]))
		}
	}
	return out
}

// makeKeys creates the missing keysets and random secrets of a cluster, and stores
// them in their final place, so that all later plans have the same.
func (c *Client) makeKeys(ctx context.Context, progress *reporter, o UpdateOptions) error {
	return c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		m, err := c.model(ctx, progress, o)
		if err != nil {
			return err
		}
		return applyOnly(ctx, progress, lease, m, []resource.Any{managedfile.Keyset.Erase(), managedfile.Secret.Erase()}, true)
	})
}
