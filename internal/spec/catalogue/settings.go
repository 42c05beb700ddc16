package catalogue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/versions"
)

// Defaults are the default settings of an add-on.
type Defaults struct {
	// When holds if they apply; by default if the add-on is present.
	When Condition `json:"when"`
	// Why tells the user where the values come from.
	Why string `json:"why"`
	// Values are by path below the path of the add-on's settings.
	Values map[string]Value `json:"values"`
}

// Value is the value of a setting, or a template of a text, true or false; a value that is empty
// for a cluster sets nothing.
type Value struct {
	fixed json.RawMessage
	text  Text
	// byVersion has values by the oldest version of Kubernetes that they are for, newest first.
	byVersion []versionedValue
}

type versionedValue struct {
	From  string `json:"from"`
	Value Value  `json:"value"`
}

// UnmarshalJSON reads a value, or a list of {from, value}.
func (v *Value) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		if err := v.text.UnmarshalJSON(data); err != nil || v.text.template != nil {
			return err
		}
	case '[':
		if err := yaml.UnmarshalStrict(data, &v.byVersion); err == nil && len(v.byVersion) > 0 {
			return nil
		}
		v.byVersion = nil
	}
	v.fixed = slices.Clone(data)
	return nil
}

// valueFor returns the value for a cluster as JSON, empty if there is none.
func (v Value) valueFor(view *View) ([]byte, error) {
	switch {
	case v.text.template != nil:
		text, err := v.text.Fill(view)
		if err != nil || text == "" || text == "true" || text == "false" {
			return []byte(text), err
		}
		return json.Marshal(text)
	case v.byVersion == nil:
		return v.fixed, nil
	}
	k, err := versions.ParseVersion(view.Spec.KubernetesVersion)
	if err != nil {
		return nil, fmt.Errorf("a value depends on the version of Kubernetes: %w", err)
	}
	for _, s := range v.byVersion {
		from, err := versions.ParseVersion(s.From + ".0")
		if s.From == "" || err == nil && versions.AtLeast(k, from.Major, from.Minor) {
			return s.Value.valueFor(view)
		}
	}
	return nil, nil
}

// Fill sets the settings of the add-on that are empty, if its defaults apply.
func (a *Addon) Fill(v *View) error {
	on, err := a.Defaults.When.Holds(v)
	if err != nil || !on {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(a.Defaults.Values)) {
		value, err := a.Defaults.Values[path].valueFor(v)
		if err == nil && len(value) > 0 {
			err = fill.Path(v.Spec, a.Spec+"."+path, value)
		}
		if err != nil {
			return fmt.Errorf("the default of %s: %w", path, err)
		}
	}
	return nil
}

// checkDefaults rejects defaults for unknown settings, and invalid versions.
func (a *Addon) checkDefaults() error {
	for path, value := range a.Defaults.Values {
		all := []Value{value}
		for _, s := range value.byVersion {
			if _, err := versions.ParseVersion(s.From + ".0"); s.From != "" && err != nil {
				return fmt.Errorf("the default of %s: %w", path, err)
			}
			all = append(all, s.Value)
		}
		for _, one := range all {
			if err := fill.Path(&api.ClusterSpec{}, a.Spec+"."+path, one.fixed); err != nil {
				return fmt.Errorf("the default of %s: %w", path, err)
			}
		}
	}
	return nil
}

// Refusal is a setting with which a cluster is refused.
type Refusal struct {
	// When holds if it is set; by default if the add-on is present.
	When Condition `json:"when"`
	// Path and Value are the setting, in v1alpha2; Message says why it is refused, and Remedy what
	// the user can do.
	Path    string `json:"path"`
	Value   string `json:"value"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// Need is what an add-on needs in addition: another add-on, or that service accounts have roles of
// their own.
type Need struct {
	// When holds if it is needed; by default if the add-on is present.
	When Condition `json:"when"`
	// Addon is the folder of another add-on.
	Addon    string `json:"addon"`
	OwnRoles bool   `json:"ownRoles"`
	// Path and Value are the user's setting that needs it, in v1alpha2.
	Path  string `json:"path"`
	Value string `json:"value"`
	// Message describes the problem, unless the other is simply missing.
	Message string `json:"message"`

	// Rule is the name of the check, and Remedy what the user can do.
	Rule   string `json:"-"`
	Remedy string `json:"-"`

	addon  *Addon
	always bool // it has no condition of its own
}

// completeNeeds completes the needs of an add-on with what follows from the needed add-ons.
func (a *Addon) completeNeeds(c *Catalogue) error {
	for i := range a.Requires {
		n := &a.Requires[i]
		n.always = n.When.isAbsent()
		n.When = n.When.orElse(a.Present)
		if n.OwnRoles {
			n.Rule, n.Message = a.Rule, cmp.Or(n.Message, "needs its own IAM role")
			n.Remedy = "set spec.iam.useServiceAccountExternalPermissions to true"
			continue
		}
		if n.addon = c.find(n.Addon); n.addon == nil {
			return fmt.Errorf("it requires the add-on %q, which does not exist", n.Addon)
		}
		n.Rule, n.Message, n.Remedy = "needs-"+n.addon.Rule, cmp.Or(n.Message, "needs "+n.addon.Rule), n.addon.Enable
	}
	return nil
}

// IsMissing reports whether a cluster needs this and does not have it.
func (n *Need) IsMissing(v *View) (bool, error) {
	if on, err := n.When.Holds(v); err != nil || !on {
		return false, err
	}
	if n.OwnRoles {
		return !v.OwnRoles(), nil
	}
	there, err := n.addon.Present.Holds(v)
	return !there, err
}
