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

// Defaults are the settings that a user need not make.
type Defaults struct {
	// When says where they hold; where the add-on is present if absent.
	When Condition `json:"when"`
	// Why says to a user where the values come from.
	Why string `json:"why"`
	// Values are by path below the path of the add-on's settings.
	Values map[string]Value `json:"values"`
}

// Value is the value of a setting, or a template of a text, true or false; one that is
// empty for a cluster sets nothing.
type Value struct {
	fixed json.RawMessage
	text  Text
	// by are values by the oldest version of Kubernetes that they are for, the newest first.
	by []since
}

type since struct {
	From  string `json:"from"`
	Value Value  `json:"value"`
}

// UnmarshalJSON reads a value, or a list of {from, value}.
func (v *Value) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		if err := v.text.UnmarshalJSON(data); err != nil || v.text.of != nil {
			return err
		}
	case '[':
		if err := yaml.UnmarshalStrict(data, &v.by); err == nil && len(v.by) > 0 {
			return nil
		}
		v.by = nil
	}
	v.fixed = slices.Clone(data)
	return nil
}

// of returns the value for a cluster as JSON, empty for none.
func (v Value) of(view *View) ([]byte, error) {
	switch {
	case v.text.of != nil:
		text, err := v.text.Fill(view)
		if err != nil || text == "" || text == "true" || text == "false" {
			return []byte(text), err
		}
		return json.Marshal(text)
	case v.by == nil:
		return v.fixed, nil
	}
	k, err := versions.ParseVersion(view.Spec.KubernetesVersion)
	if err != nil {
		return nil, fmt.Errorf("a value depends on the version of Kubernetes: %w", err)
	}
	for _, s := range v.by {
		from, err := versions.ParseVersion(s.From + ".0")
		if s.From == "" || err == nil && versions.AtLeast(k, from.Major, from.Minor) {
			return s.Value.of(view)
		}
	}
	return nil, nil
}

// Fill sets the settings of the add-on that are empty, where its defaults hold.
func (a *Addon) Fill(v *View) error {
	on, err := a.Defaults.When.Holds(v)
	if err != nil || !on {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(a.Defaults.Values)) {
		value, err := a.Defaults.Values[path].of(v)
		if err == nil && len(value) > 0 {
			err = fill.Path(v.Spec, a.Spec+"."+path, value)
		}
		if err != nil {
			return fmt.Errorf("the default of %s: %w", path, err)
		}
	}
	return nil
}

// checkDefaults refuses defaults of unknown settings, and invalid versions.
func (a *Addon) checkDefaults() error {
	for path, value := range a.Defaults.Values {
		all := []Value{value}
		for _, s := range value.by {
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

// Need is what an add-on needs beside itself: another add-on, or that service accounts
// have roles of their own.
type Need struct {
	// When says where it is needed; where the add-on is present if absent.
	When Condition `json:"when"`
	// Addon is the folder of another add-on.
	Addon    string `json:"addon"`
	OwnRoles bool   `json:"ownRoles"`
	// Path and Value are what a user has written that needs it, in v1alpha2.
	Path  string `json:"path"`
	Value string `json:"value"`
	// Message describes the problem, if it is more than that the other is missing.
	Message string `json:"message"`

	// Rule is the name of the check, and Remedy what a user can do.
	Rule   string `json:"-"`
	Remedy string `json:"-"`

	other *Addon
}

// settle gives the needs of an add-on all that follows from what is needed.
func (a *Addon) settle(c *Catalogue) error {
	for i := range a.Requires {
		n := &a.Requires[i]
		n.When = n.When.or(a.Present)
		if n.OwnRoles {
			n.Rule, n.Message = a.Rule, cmp.Or(n.Message, "needs permissions of its own")
			n.Remedy = "set spec.iam.useServiceAccountExternalPermissions to true"
			continue
		}
		if n.other = c.find(n.Addon); n.other == nil {
			return fmt.Errorf("it requires the add-on %q, which there is not", n.Addon)
		}
		n.Rule, n.Message, n.Remedy = "needs-"+n.other.Rule, cmp.Or(n.Message, "needs "+n.other.Rule), n.other.Enable
	}
	return nil
}

// Lacks reports whether a cluster needs this and has it not.
func (n *Need) Lacks(v *View) (bool, error) {
	if on, err := n.When.Holds(v); err != nil || !on {
		return false, err
	}
	if n.OwnRoles {
		return !v.OwnRoles(), nil
	}
	there, err := n.other.Present.Holds(v)
	return !there, err
}
