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

// SavedPlan is a plan as a file holds it: the steps that do something, and for
// which cluster, when, by whom and with which options it was made. It holds no key.
type SavedPlan struct {
	Format  int       `json:"format"`
	Cluster string    `json:"cluster"`
	Time    time.Time `json:"time"`
	// Version is the version of the program that made the plan.
	Version string    `json:"version"`
	Part    PlanPart  `json:"options"`
	Summary PlanCount `json:"summary"`
	// Steps are in the order in which they are carried out; Deferred are deletions
	// that they do not make, for lack of --prune.
	Steps    []SavedStep `json:"steps"`
	Deferred []SavedStep `json:"deferred"`
	// Risks are what deserves a second look before the plan is carried out.
	Risks finding.List `json:"risks,omitempty"`
	// Digest is the SHA-256 of all the rest, in hexadecimal.
	Digest string `json:"digest"`
}

// PlanPart is which part of a cluster a plan is about, and whether it prunes.
type PlanPart struct {
	Prune      bool              `json:"prune,omitempty"`
	Phase      string            `json:"phase,omitempty"`
	Groups     []string          `json:"instanceGroups,omitempty"`
	Roles      []string          `json:"instanceGroupRoles,omitempty"`
	Lifecycles map[string]string `json:"lifecycleOverrides,omitempty"`
	// What was allowed when the plan was made is allowed when it is carried out.
	AllowUnverified bool `json:"allowUnverified,omitempty"`
	AllowDowngrade  bool `json:"allowDowngrade,omitempty"`
	IgnoreSkew      bool `json:"ignoreKubeletVersionSkew,omitempty"`
}

// partOf is the part of a cluster that the options of an update say.
func partOf(o UpdateOptions) PlanPart {
	return PlanPart{Prune: o.Prune, Phase: o.Phase, Groups: o.Groups, Roles: o.Roles, Lifecycles: o.Lifecycles,
		AllowUnverified: o.AllowUnverified, AllowDowngrade: o.AllowDowngrade, IgnoreSkew: o.IgnoreSkew}
}

// asPlanned gives an update the options of the saved plan that it carries out. An option
// that is given as well stays, and the plan is refused when it was made with another.
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

// limits is a part without what is only allowed: that does not change a plan which is compared.
func (p PlanPart) limits() PlanPart {
	p.AllowUnverified, p.AllowDowngrade, p.IgnoreSkew = false, false, false
	return p
}

// SavedStep is a step in the shape that its JSON has.
type SavedStep map[string]any

// Saved returns the plan of an update as a file holds it.
func (u *Update) Saved() (*SavedPlan, error) {
	if u.modelled == nil || u.Plan == nil {
		return nil, errNoUpdate
	}
	w, o := u.modelled.World, u.options
	s := &SavedPlan{Format: planFormat, Cluster: u.modelled.Cluster.Spec.Name, Time: w.Now().UTC().Truncate(time.Second), Version: w.Version,
		Part:    partOf(o),
		Summary: u.Plan.Count(), Risks: u.Risks}
	var err error
	doing := slices.DeleteFunc(slices.Clone(u.Plan.made.Steps), func(st plan.Step) bool { return st.Op == plan.Keep })
	if s.Steps, err = savedSteps(doing); err != nil {
		return nil, err
	}
	if s.Deferred, err = savedSteps(u.Plan.made.Deferred); err != nil {
		return nil, err
	}
	if s.Digest, err = s.digest(); err != nil {
		return nil, err
	}
	data, err := s.Marshal()
	if err != nil {
		return nil, err
	}
	return ReadPlan(data) // as it will be read
}

func savedSteps(steps []plan.Step) ([]SavedStep, error) {
	out := []SavedStep{}
	for _, st := range steps {
		st.After = nil // counts steps that are left out
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

// decode reads JSON without giving up a digit of its numbers.
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

// digest is the digest of everything but itself, in whatever way that is indented.
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

// ReadPlan reads a saved plan. One that was edited is refused.
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

// mostMoved is how many differences between two plans are told.
const mostMoved = 10

// check refuses the plan of now when it is another than the saved one, and says
// in what.
func (s *SavedPlan) check(now *SavedPlan) error {
	if s.Cluster != now.Cluster {
		return &Refused{fault.New(fault.Conflict, "the saved plan is of cluster %q, not of %q", s.Cluster, now.Cluster)}
	}
	was, is := flat(s.Part.limits()), flat(now.Part.limits())
	if d := differing(was, is); len(d) > 0 {
		return &Refused{fault.New(fault.Conflict, "the plan was saved with other options: %s; use the same options, or make a new plan", strings.Join(d, "; "))}
	}
	moved := slices.Concat(movedSteps("", s.Steps, now.Steps), movedSteps("with option:Prune: ", s.Deferred, now.Deferred))
	if len(moved) == 0 {
		return nil
	}
	if n := len(moved) - mostMoved; n > 0 {
		moved = append(moved[:mostMoved], fmt.Sprintf("and %d more", n))
	}
	return &Refused{fault.New(fault.Conflict, "the plan saved at %s was not carried out, because the cloud, the objects or the version of kops (%s then, %s now) have changed since:\n  %s\nmake a new plan",
		s.Time.Format(time.RFC3339), s.Version, now.Version, strings.Join(moved, "\n  "))}
}

// movedSteps tells the differences between two lists of steps.
func movedSteps(prefix string, was, is []SavedStep) []string {
	old, now := named(was), named(is)
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

// named returns steps by what they do; several that do the same have numbers.
func named(steps []SavedStep) map[string]SavedStep {
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

// flat spells the values of a JSON document by their paths.
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

// differing tells the values that differ: `want.Count was "3", and is "4"`. Changes are
// left out, as they follow from what is there and what is wanted.
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

// makeKeys makes the keysets and the random secrets that a cluster lacks, and stores
// them where they belong, so that all plans from then on have the same.
func (c *Client) makeKeys(ctx context.Context, told *call, o UpdateOptions) error {
	return c.leased(ctx, told, func(ctx context.Context, lease *clusterstore.Lease) error {
		m, err := c.modelled(ctx, told, o)
		if err != nil {
			return err
		}
		return applyOnly(ctx, told, lease, m, []resource.Any{managedfile.Keyset.Erase(), managedfile.Secret.Erase()}, true)
	})
}
